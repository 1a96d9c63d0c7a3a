"""Select the rows that answer a question, and the strategies that need least memory.

All pages, figures and commands use this selection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.frames import Row, read_ratio
from framebench.analysis.needs import are_equal_amounts
from framebench.analysis.statistics import PEAK, Ratio

SavedRatio = Literal["needs_ratio", "relative_peak"]


def select_one_row_per_case(rows_of_machines: Sequence[Sequence[Row]]) -> list[Row]:
    """Return one row for each case, from the rows of this machine and then of others.

    It is the first that can be compared with its baseline, or else the first. If one machine has
    measured a question, rows of another kind of device do not answer it.
    """
    selected: dict[str, Row] = {}
    devices: dict[tuple[str, str, str], str] = {}  # the kind of device that answers a question
    for machine_rows in rows_of_machines:
        devices_before = dict(devices)  # a machine's own rows do not exclude each other
        for row in machine_rows:
            question = row.workload, row.scenario, row.size
            if row.device is not None:
                if devices_before.get(question, row.device) != row.device:
                    continue
                if row.usable:
                    devices.setdefault(question, row.device)
            previous = selected.get(row.case)
            if previous is None or (lacks_baseline(previous) and not lacks_baseline(row)):
                selected[row.case] = row
    return list(selected.values())


def lacks_baseline(row: Row) -> bool:
    """Return whether a row has numbers, but none of its baseline to compare them with."""
    return row.status == "ok" and row.relative_peak is None


def select_comparable(group: pd.DataFrame) -> pd.DataFrame:
    """Return the proven strategies of one workload and scenario at the usual batch.

    The strategies have the mathematics of the baseline, and a ratio to its peak by the instrument
    that strategies are compared by. They need not be timed.
    """
    is_usual = group["batch"] == rows.find_usual_batch(group)
    is_proven = group["usable"] & group["same_mathematics"]
    return group[is_proven & group["relative_peak"].notna() & is_usual]


def rank_savings(
    comparable_rows: pd.DataFrame, ratio: SavedRatio = "needs_ratio"
) -> Iterator[tuple[str, list[Any]]]:
    """Yield each framework with the strategies that save memory, the one with least first.

    `ratio` is `needs_ratio` wherever memory is compared with a budget, and `relative_peak` for a
    picture that has peaks on its axis.
    """
    by_framework = comparable_rows.groupby("framework", observed=True, sort=False)
    for framework, framework_rows in by_framework:
        if len(framework_rows) > 1:  # more than its baseline
            yield str(framework), list(rows.iterate_rows(select_savings(framework_rows, ratio)))


def select_savings(framework_rows: pd.DataFrame, ratio: SavedRatio = "needs_ratio") -> pd.DataFrame:
    """Return the rows whose ratio to the baseline says that they save memory, least first."""
    # a smaller difference does not matter
    saves = ~framework_rows["baseline"] & (framework_rows[ratio] < 1 - PEAK.minimum)
    return framework_rows[saves].sort_values(ratio, kind="stable")


def find_least(framework_rows: pd.DataFrame) -> Any | None:
    """Return the row that needs least: of a strategy that saves memory, or else of the baseline.

    It is None if there is neither.
    """
    baselines = framework_rows[framework_rows["baseline"]]
    candidates = pd.concat([select_savings(framework_rows), baselines])
    return next(rows.iterate_rows(candidates), None)


def find_rivals(framework_rows: pd.DataFrame, least: Any) -> list[Any]:
    """Return the rows that may need less than `least`, the one that needs least of what is known.

    Their peaks are lower, but no search has run their strategies. What they keep is then a guess by
    other strategies, which makes their needs larger. The lowest peak comes first.
    """
    is_guess = framework_rows["least_needs_bytes"] < framework_rows["needs_bytes"]
    is_lower = framework_rows["step_bytes"] < least.step_bytes * (1 - PEAK.minimum)
    rivals = framework_rows[is_guess & is_lower & (framework_rows["case"] != least.case)]
    return list(rows.iterate_rows(rivals.sort_values("step_bytes", kind="stable")))


def describe_rivals(rivals: Sequence[Any]) -> str:
    """Return that these strategies may need less than what is said to need least, or ""."""
    if not rivals:
        return ""
    names = ", ".join(f"`{row.strategy}`" for row in rivals)
    them = "it" if len(rivals) == 1 else "them"
    return f"{names} may need less: no search has run {them}"


def select_leasts(ranked: Sequence[Any]) -> list[Any]:
    """Return the first row, and those that need as little, of rows of `rank_savings`."""
    return [row for row in ranked if are_equal_amounts(row.needs_bytes, ranked[0].needs_bytes)]


def select_with_price(ranked: Sequence[Any]) -> list[Any]:
    """Return the rows that need least; if none of them was timed, also the first one that was.

    `ranked` has rows of `rank_savings`, least memory first.
    """
    leasts = select_leasts(ranked)
    timed = [row for row in ranked if pd.notna(row.time_ratio)]
    if timed and timed[0] not in leasts:
        leasts.append(timed[0])
    return leasts


def get_time_ratio(row: Any) -> Ratio | None:
    """Return the step time over the baseline's, or None if it was not timed."""
    return read_ratio(row.time_ratio, row.time_ratio_low, row.time_ratio_high)


def describe_cost(row: Any) -> str:
    """Return what a strategy costs in time, such as `1.25 x the time`, or `not timed`.

    An undecided ratio is given as a range.
    """
    ratio = get_time_ratio(row)
    if ratio is None:
        return "not timed"
    cost = f"{ratio.value:.2f}"
    if ratio.low is None:
        cost = f"about {cost}"
    elif not ratio.decided:
        cost = f"{ratio.low:.2f} to {ratio.high:.2f}"
    return f"{cost} x the time"
