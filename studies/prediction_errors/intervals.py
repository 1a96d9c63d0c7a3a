"""Intervals of the error by kind of prediction, and how they cover families that were left out."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import ceil
from typing import Literal

from framebench.analysis.rendering import Table
from framebench.devices.needs import ERRORS, FEWEST_ROWS, STEPS, TITLES, ErrorInterval, Kind
from studies.prediction_errors.samples import Sample

SHARE = 0.9  # of the rows of each family that are within a side of the interval
WITHOUT_CONVOLUTIONS = (
    "torch",
    "torch, texts of one length",
    "torch, padded texts",
    "torch, frozen weights",
)
NAMES_OF_GROUPS = {
    "family": ("Families left out", "families"),
    "source": ("Sources left out", "sources"),
}
DIGITS = 4  # of a share that is stored: a hundredth of a percent


def compute_intervals(samples: Sequence[Sample]) -> dict[Kind, ErrorInterval]:
    """Return the interval of each kind, from all of its samples."""
    return {kind: compute_interval(select(samples, kind)) for kind in TITLES}


def select(samples: Iterable[Sample], kind: Kind) -> list[Sample]:
    """Return the samples of a kind of prediction.

    Of a step of which only the lack of convolutions is known these are all eager steps without
    them on one GPU.
    """
    kinds = WITHOUT_CONVOLUTIONS if kind == "torch" else (kind,)
    return [sample for sample in samples if sample.kind in kinds]


def compute_interval(samples: Sequence[Sample]) -> ErrorInterval:
    """Return the interval that covers nine of ten rows of every family, on either side.

    The family that is predicted worst decides each side: to average over families would promise
    for a new one what holds for the average. With few rows nothing is said of nine in ten, and the
    sides are those of the worst row.
    """
    # a row is counted once, whichever assumption of cuBLAS's workspaces it is predicted with
    measured = {(sample.source, sample.row): sample.step for sample in samples}
    is_judged = len(measured) >= FEWEST_ROWS
    absolute = [abs(sample.error) for sample in samples]
    families = sorted({sample.family for sample in samples})
    lowest, highest = 0.0, 0.0
    for family in families:
        errors = [sample.error for sample in samples if sample.family == family]
        highest = max(highest, find_ninth(errors))
        lowest = min(lowest, -find_ninth([-error for error in errors]))
    return ErrorInterval(
        low=round(lowest, DIGITS),
        high=round(highest, DIGITS),
        median=round(statistics.median(absolute), DIGITS) if is_judged else None,
        ninth=round(find_ninth(absolute), DIGITS) if is_judged else None,
        rows=len(measured),
        families=len(families),
        sources=len({source for source, _ in measured}),
        steps={step: list(measured.values()).count(step) for step in STEPS},
    )


def find_ninth(errors: Sequence[float]) -> float:
    """Return the error that nine of ten do not exceed."""
    ordered = sorted(errors)
    return ordered[ceil(SHARE * len(ordered)) - 1]


def write(samples: Sequence[Sample]) -> None:
    """Write the intervals where the package reads them."""
    stored = {kind: asdict(interval) for kind, interval in compute_intervals(samples).items()}
    ERRORS.write_text(json.dumps(stored, indent=1) + "\n")


def tabulate_left_out(samples: Sequence[Sample], group: Literal["family", "source"]) -> Table:
    """Return how each family, or each source, fares with the interval of the others of its kind."""
    rows = []
    for kind in TITLES:
        of_kind = select(samples, kind)
        for name in sorted({getattr(sample, group) for sample in of_kind}):
            left_out = [sample for sample in of_kind if getattr(sample, group) == name]
            others = [sample for sample in of_kind if getattr(sample, group) != name]
            if not others:
                continue
            interval = compute_interval(others)
            fitting = [sample for sample in left_out if sample.error <= interval.high]
            within = [sample for sample in fitting if sample.error >= interval.low]
            rows.append(
                (
                    TITLES[kind],
                    name,
                    interval.describe_sides(),
                    f"{len(within)} of {len(left_out)}",
                    f"{len(fitting)} of {len(left_out)}",
                )
            )
    title, others_of = NAMES_OF_GROUPS[group]
    return Table.of_text(
        title,
        f"The interval is that of the other {others_of} of the kind. needs no more: rows that were "
        "not above it, which is what an answer of 'fits' relies on. A row that is predicted with "
        "both assumptions of cuBLAS's workspaces is there twice. A kind without a line has one "
        f"{group} alone.",
        ("prediction", "left out", "interval of the others", "within", "needs no more"),
        rows,
        left=3,
    )
