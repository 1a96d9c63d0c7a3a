"""Make the DataFrame of `framebench.planned()`: one row for each case on a device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from framebench.analysis.frames import (
    Column,
    make_release_key,
    order_releases,
    read_frame_columns,
)
from framebench.analysis.rendering import Table
from framebench.devices.catalog import BY_NAME
from framebench.devices.plans.planned import Planned, find_upper_needs
from framebench.devices.plans.store import read_every
from framebench.records.pins import find_pinned_version
from framebench.strategies.registry import list_strategies
from framebench.suite.case import Case

COLUMNS = read_frame_columns(Path(__file__).with_name("columns.csv"))
OF_CASE = ("workload", "scenario", "strategy", "batch", "size", "ranks")
OF_PREDICTION = (
    "case",
    "framework",
    "device",
    "framework_version",
    "source",
    "outcome",
    "reason",
    "used_bytes",
)


def columns() -> Table:
    """Return the table of columns for docs/data.md."""
    caption = "Generated from framebench/devices/tables/frame.py. Nothing in it is measured."
    return Table.of_text(
        "Columns of framebench.planned()",
        caption,
        Column._fields,
        COLUMNS,
        left=len(Column._fields),
    )


def load(results: Path) -> pd.DataFrame:
    """Return the predictions that are cached in the folder."""
    return frame(read_every(results))


def frame(predictions: Iterable[Planned]) -> pd.DataFrame:
    """Return one row for each prediction, by device and then in the catalog's order."""
    cached = sorted(predictions, key=make_sort_key)
    used_bytes = {}
    for planned in cached:
        used_bytes[planned.device, planned.framework_version, planned.case] = planned.used_bytes
    rows = []
    for planned in cached:
        case = Case.from_id(planned.case)
        baseline = replace(case, strategy=case.scenario_spec.baseline)
        base_bytes = used_bytes.get((planned.device, planned.framework_version, baseline.id))
        rows.append(make_row(planned, case, baseline, base_bytes))
    table = pd.DataFrame(rows, columns=[column.name for column in COLUMNS])
    table["framework_version"] = order_releases(table["framework_version"])
    return table.astype({column.name: column.dtype for column in COLUMNS})


def make_row(
    planned: Planned, case: Case, baseline: Case, base_bytes: int | None
) -> dict[str, Any]:
    """Return the values of a prediction by column.

    `base_bytes` are what the same release uses of the same device for the baseline, or None without
    such a prediction.
    """
    # a ratio needs a plan of the case, and of its baseline
    ratio = planned.used_bytes / base_bytes if planned.used_bytes and base_bytes else None
    return {
        **{name: getattr(case, name) for name in OF_CASE},
        **{name: getattr(planned, name) for name in OF_PREDICTION},
        "device_bytes": BY_NAME[planned.device].memory_bytes,
        "pinned": planned.framework_version == find_pinned_version(planned.framework),
        "reserved_bytes": planned.peak_bytes,
        "refused_bytes": planned.needs_bytes,
        "needs_bytes": find_upper_needs(planned),
        "temporary_bytes": planned.parts.get("temporaries"),
        "ratio": ratio,
        "baseline": case == baseline,
        "commit": planned.origin.commit,
    }


def make_sort_key(planned: Planned) -> tuple[object, ...]:
    """Return the key by which predictions are sorted: device, question, release and strategy."""
    case = Case.from_id(planned.case)
    strategies = [*list_strategies(case.scenario), case.strategy]  # one that is no more comes last
    return (
        list(BY_NAME).index(planned.device),
        (case.workload, case.scenario, case.size, case.framework),
        make_release_key(planned.framework_version),
        case.batch,
        strategies.index(case.strategy),
        planned.case,
    )
