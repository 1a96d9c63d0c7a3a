"""Records by hand for figures, and what a figure shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import figures, frames
from framebench.records.record import Record
from tests.fake_records import make_measured, repeat_in_blocks

MIB = 2**20


def make_record(
    strategy: str,
    peak: int = 0,
    step: float = 1.0,
    framework: str = "torch",
    scenario: str = "train",
    batch: int = 4,
    **more: Any,
) -> Record:
    """Return a record; `peak` is in MiB by host.rss, `step` in seconds."""
    where = {"batch": batch, "size": "cpu", "scenario": scenario}
    return make_measured(strategy, peak * MIB, step, framework, **where, **more)


def make_lost(strategy: str, status: str = "oom", **where: Any) -> Record:
    return make_record(
        strategy,
        peaks={},
        step_s=[],
        first_step_s=None,
        verification=None,
        effect=None,
        status=status,
        reason="why",
        **where,
    )


def make_frame(*found: Record) -> pd.DataFrame:
    return frames.make_frame(repeat_in_blocks(found))


def get_panels(figure: Figure | None) -> list[Axes]:
    return figure.axes


def read_texts(figure: Figure | None) -> tuple[str, str]:
    """Return the title and the footer, on one line each."""
    return figures.read_finding_and_source(figure)


def read_places(axes: Axes) -> set[tuple[float, float]]:
    """Return where the panel has markers."""
    offsets = np.asarray(axes.collections[0].get_offsets()).round(6)
    return {(float(x), float(y)) for x, y in offsets}


def read_labels(axes: Axes) -> set[str]:
    """Return the texts that stand in the panel."""
    return {text.get_text() for text in axes.texts} - {""}
