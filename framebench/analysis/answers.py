"""Which rows answer a question, and which strategy needs least: nothing else decides this for pages, figures or commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.frames import Row
from framebench.analysis.statistics import PEAK, Ratio


def answering(of_machines: Sequence[Sequence[Row]]) -> list[Row]:
    """One row for each case, from the rows of this machine and then of others: the first that can be compared with its
    baseline, or else the first. A question that one machine has measured takes no rows of a device of another kind."""
    found: dict[str, Row] = {}
    devices: dict[tuple[str, str, str], str] = {}
    for one_machine in of_machines:
        before = dict(devices)
        for r in one_machine:
            place = r.workload, r.scenario, r.size
            if r.device is not None and before.get(place, r.device) != r.device:
                continue
            if r.device is not None and r.usable:
                devices.setdefault(place, r.device)
            if r.case not in found or (_incomparable(found[r.case]) and not _incomparable(r)):
                found[r.case] = r
    return [*found.values()]


def _incomparable(r: Row) -> bool:
    """Whether it has numbers, but none of its baseline's to compare them with."""
    return r.status == "ok" and r.step_ratio is None


def compared(group: pd.DataFrame) -> pd.DataFrame:
    """The proven strategies of one workload and scenario at the usual batch: they compute what the baseline does, and have its
    ratio of peaks by the instrument that strategies are compared by. Whether they were timed plays no part."""
    usual = group["batch"] == rows.usual_batch(group)
    return group[group["usable"] & group["same_mathematics"] & group["step_ratio"].notna() & usual]


def least(comparable_rows: pd.DataFrame) -> Iterator[tuple[str, list[Any]]]:
    """Of rows that can be compared: framework, and the strategies that save memory, the one that needs least first."""
    for framework, framework_rows in comparable_rows.groupby("framework", observed=True, sort=False):
        if len(framework_rows) > 1:
            yield str(framework), [*rows.each(saving(framework_rows))]


def saving(framework_rows: pd.DataFrame) -> pd.DataFrame:
    """Those that need less than the baseline, least first."""
    less = ~framework_rows["baseline"] & (framework_rows["step_ratio"] < 1 - PEAK.minimum)
    return framework_rows[less].sort_values("step_ratio", kind="stable")


def with_price(found: Sequence[Any]) -> list[Any]:
    """Of strategies that save memory the first; where that was not timed, also the first that was."""
    timed = [row for row in found if pd.notna(row.time_ratio)]
    return [*found[:1], *(row for row in timed[:1] if row is not found[0])]


def timed_elsewhere(tables: Mapping[str, pd.DataFrame]) -> dict[tuple[str, str | None], tuple[str, Any]]:
    """By case and kind of device, the first machine that timed it beside its baseline, and the row."""
    found: dict[tuple[str, str | None], tuple[str, Any]] = {}
    for machine, table in tables.items():
        for row in rows.each(table[table["usable"] & table["time_ratio"].notna()]):
            found.setdefault((row.case, row.device), (machine, row))
    return found


def time_of(row: Any) -> Ratio | None:
    """Step time over the baseline's, if it was timed."""
    low, high = (None if pd.isna(end) else float(end) for end in (row.time_ratio_low, row.time_ratio_high))
    return None if pd.isna(row.time_ratio) else Ratio(row.time_ratio, low, high)


def cost(row: Any) -> str:
    """What it takes in time."""
    if (ratio := time_of(row)) is None:
        return "not timed"
    if ratio.low is not None and not ratio.decided:
        return f"{ratio.low:.2f} to {ratio.high:.2f} x the time"
    return f"{'about ' if ratio.low is None else ''}{ratio.value:.2f} x the time"
