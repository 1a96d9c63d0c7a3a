"""How much of what one machine's tables say holds on another?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from framebench.analysis.frames import make_frame, read_ratios
from framebench.analysis.rendering import Table, format_mib, format_number
from framebench.analysis.selection import select_one_version
from framebench.analysis.statistics import Ratio
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.profiles import list_profile_cases
from framebench.suite.selectors import parse

PEAK_LIMIT, TIME_LIMIT = 0.01, 0.10  # numbers of two machines that differ by no more say the same
FRAMEWORKS, REDUCED, STRATEGIES = "frameworks", "strategies in bfloat16", "strategies in float32"


@dataclass(frozen=True)
class TableEntry:
    """What a machine's tables have of a case."""

    peak: float  # bytes
    instrument: str
    time: Ratio | None  # over the framework's baseline; of a baseline over PyTorch's


Entries = dict[str, TableEntry]  # by case id


def comparisons(records: Iterable[Record], machines: list[str]) -> list[Table]:
    """Compare each machine with the first one, which is the published one.

    Compared are the quick profile's cases that both machines have numbers of.
    """
    if not machines:
        return []
    rows = make_frame(select_one_version(records))
    quick_cases = [case.id for case in list_profile_cases("quick")]
    rows = rows[rows["case"].isin(quick_cases) & (rows["status"] == "ok")]
    entries = {machine: collect_entries(rows[rows["machine"] == machine]) for machine in machines}
    published, *others = machines
    return [compare(published, entries[published], other, entries[other]) for other in others]


def collect_entries(rows: pd.DataFrame) -> Entries:
    """Return what the tables have of each case of one machine."""
    times = []
    columns = (
        rows["baseline"],
        rows["framework"],
        read_ratios(rows),
        read_ratios(rows, "torch_ratio"),
    )
    for is_baseline, framework, over_baseline, over_torch in zip(*columns):
        if not is_baseline:
            times.append(over_baseline)
        elif framework != "torch":
            times.append(over_torch)
        else:
            times.append(None)  # all else is measured against PyTorch's baseline
    entries = {}
    for case, peak, instrument, time in zip(
        rows["case"], rows["peak_bytes"], rows["peak_instrument"], times
    ):
        entries[case] = TableEntry(peak, instrument, time)
    return entries


def classify(case: Case) -> str:
    """Return the group of ratios that a case's step time belongs to."""
    if case.strategy == case.scenario_spec.baseline:
        return FRAMEWORKS
    return REDUCED if "bf16" in case.strategy else STRATEGIES


def compare(
    published: str, published_entries: Entries, other: str, other_entries: Entries
) -> Table:
    """Return the table of two machines, with a row for each case that both have."""
    rows = []
    peak_differences: list[float] = []
    time_differences: dict[str, list[float]] = defaultdict(list)
    for case, first in published_entries.items():
        if case not in other_entries:
            continue
        second = other_entries[case]
        peak_difference = time_difference = None
        if first.instrument == second.instrument:
            peak_difference = second.peak / first.peak - 1
            peak_differences.append(peak_difference)
        if first.time and second.time:
            time_difference = second.time.value / first.time.value - 1
            time_differences[classify(parse(case))].append(time_difference)
        peaks = (
            format_mib(first.peak),
            format_mib(second.peak),
            format_number(peak_difference, "+.1%"),
        )
        times = (
            show_ratio(first.time),
            show_ratio(second.time),
            format_number(time_difference, "+.0%"),
        )
        rows.append((case, *peaks, *times))
    near = []
    for group in (STRATEGIES, REDUCED, FRAMEWORKS):
        if time_differences[group]:
            near.append(f"{count_within(time_differences[group], TIME_LIMIT)} of {group}")
    caption = (
        f"Peaks are in MiB by one instrument: {count_within(peak_differences, PEAK_LIMIT)} are "
        f"within {PEAK_LIMIT:.0%} of each other. Step times are over the baseline's, and of other "
        f"frameworks' baselines over PyTorch's: within {TIME_LIMIT:.0%} are {', '.join(near)}. ~ = "
        "of fewer than 3 blocks."
    )
    head = (
        "case",
        f"peak, {published}",
        f"peak, {other}",
        "apart",
        f"time, {published}",
        f"time, {other}",
        "apart",
    )
    return Table.of_text(f"{other} beside {published}", caption, head, rows, left=1)


def show_ratio(ratio: Ratio | None) -> str:
    """Return the ratio as tables print it."""
    return "-" if ratio is None else ratio.text


def count_within(differences: list[float], limit: float) -> str:
    """Return how many differences are within the limit, such as `60 of 64`."""
    near = [difference for difference in differences if abs(difference) <= limit]
    return f"{len(near)} of {len(differences)}"
