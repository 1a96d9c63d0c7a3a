"""Show the differences of two versions of a framework: a table, its notes, and a sentence.

`judge.py` has the verdicts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from framebench.analysis.blocks import Blocks
from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn
from framebench.analysis.reports import verdicts
from framebench.analysis.selection import select_single
from framebench.analysis.statistics import NONE, PEAK, TIME, UNDECIDED
from framebench.explain.table import load_causes
from framebench.records.record import Record
from framebench.strategies.strategy import TITLES
from framebench.suite.counting import format_count, format_span
from framebench.suite.sequences import drop_duplicates
from framebench.versions.judge import (
    COUNTED_REASONS,
    FIRST_STEP,
    IMPROVEMENT,
    REGRESSION,
    TOO_FEW,
    VERDICTS,
    CaseRecords,
    QuantityComparison,
    compare_successive,
    parse_pair,
    suggest_bisect,
)

# of quantities, so that a row takes one line of 100 columns
SHORT_NAMES = {PEAK.name: "peak", TIME.name: "step", FIRST_STEP.name: "first step"}
FOLDED = (UNDECIDED, TOO_FEW)  # verdicts that are counted below a table, not shown
WITH_RATIO = (REGRESSION, IMPROVEMENT, NONE, UNDECIDED)  # verdicts that rest on a ratio
COLUMNS = {
    "machine": TableColumn("machine"),
    "case": TableColumn("case"),
    "quantity": TableColumn("quantity"),
    "base": TableColumn("base"),
    "change": TableColumn("change"),
    "ratio": TableColumn("ratio", ".3f", priority=ESSENTIAL),
    "interval": TableColumn("95 % interval", priority=DETAIL),
    "minimum": TableColumn("minimum", priority=DETAIL),
    "p": TableColumn("p", ".3f", priority=DETAIL),
    "blocks": TableColumn("blocks", priority=DETAIL),
    "verdict": TableColumn("verdict", priority=ESSENTIAL),
}
RULE = (
    "Ratio: change over base; above 1 is worse. How it is decided: docs/versions.md. "
    "MiB = 2^20 bytes."
)

# case, base and change, such as `jax==0.9.2`: why its peak changed
Cause = Callable[[str, str, str], str | None]


def make_table(
    rows: Sequence[QuantityComparison],
    find_cause: Cause | None = None,
    folded: Sequence[str] = FOLDED,
) -> Table:
    """Return the rows of one pair of versions: regressions first, the largest ahead.

    Rows with the verdicts `folded` are counted in the notes. Raises ValueError for no rows.
    """
    if not rows:
        raise ValueError("no rows: no case has records of both versions")

    def get_rank(row: QuantityComparison) -> tuple[int, float]:
        return VERDICTS.index(row.verdict), -(row.ratio or 0)

    shown = [row for row in rows if row.verdict not in folded]
    shown.sort(key=get_rank)
    columns = dict(COLUMNS)
    left = 3
    machine = ""
    machines = {row.machine for row in rows}
    if len(machines) == 1:
        (machine,) = machines
        del columns["machine"]  # it is in the title
        left = 2
    caption = f"Memory and times together: {count_verdicts(rows)}."
    instruments = {row.instrument for row in rows if row.instrument}
    if instruments:
        caption += f" Peaks by {', '.join(sorted(instruments))}."
    caption += f" {RULE} {describe_conditions(rows)}"
    notes = drop_duplicates(list_notes(rows, shown, find_cause, folded))
    return Table(
        make_title(rows[0].base, rows[0].change),
        caption,
        pd.DataFrame([make_row(row) for row in shown], columns=list(COLUMNS)),
        columns,
        left=left,
        notes=tuple(notes),
        machine=machine,
    )


def make_row(row: QuantityComparison) -> dict[str, object]:
    """Return the values of a row by column, in the unit that is printed."""
    cells = row._asdict()
    if row.unit:  # the columns `base` and `change` have values, and not the versions
        factor, unit = verdicts.FACTORS[row.unit]
        cells["quantity"] = f"{SHORT_NAMES[row.quantity]} {unit}"
        cells["base"] = format_in_unit(row.base_value, factor)
        cells["change"] = format_in_unit(row.change_value, factor)
    cells["interval"] = verdicts.format_interval(row.low, row.high)
    cells["minimum"] = None if row.minimum is None else f"{row.minimum * 100:g} %"
    return cells


def format_in_unit(value: float | None, factor: float) -> str | None:
    """Return a value in the unit that is printed, or None if there is none."""
    return None if value is None else f"{value * factor:,.2f}"


def make_title(base: str, change: str) -> str:
    """Return `jax 0.10.2 against 0.9.2`."""
    framework, old, new = parse_pair(base, change)
    return f"{framework} {new} against {old}"


def count_verdicts(rows: Iterable[QuantityComparison]) -> str:
    """Return `1 regression, 30 no difference`, in the order of VERDICTS."""
    counts = Counter(row.verdict for row in rows)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def list_notes(
    rows: Sequence[QuantityComparison],
    shown: Sequence[QuantityComparison],
    find_cause: Cause | None,
    folded: Sequence[str],
) -> Iterator[str]:
    """Yield the reasons for missing verdicts, the causes of changed peaks, and hidden rows."""
    for row in rows:
        if row.reason and row.reason not in COUNTED_REASONS:
            yield f"{row.case}, {row.quantity}: {row.verdict}: {row.reason}"
    for row in shown:
        if row.quantity == PEAK.name and row.verdict in (REGRESSION, IMPROVEMENT) and find_cause:
            cause = find_cause(row.case, row.base, row.change)
            if cause:
                yield f"{row.case}, {row.quantity}, by framebench explain: {cause}"
    for verdict in folded:
        hidden = [row for row in rows if row.verdict == verdict]
        if hidden:
            yield f"{verdict}, not shown: {describe_hidden(hidden)}"


def describe_hidden(rows: Sequence[QuantityComparison]) -> str:
    """Return how many rows are hidden by quantity, why, and their ratios of peaks."""
    counts = Counter(row.quantity for row in rows)
    reasons = set()
    ratios = []
    for row in rows:
        if row.reason in COUNTED_REASONS:
            reasons.add(str(row.reason))
        if row.quantity == PEAK.name and row.ratio is not None:
            interval = verdicts.format_interval(row.low, row.high)
            ratios.append(f"{row.case} {row.ratio:.3f} ({interval})")
    text = ", ".join(f"{quantity} of {count}" for quantity, count in counts.items())
    if reasons:
        text += f" ({'; '.join(sorted(reasons))})"
    if ratios:
        text += f". Undecided ratios of peaks: {', '.join(ratios)}"
    return text


def describe_conditions(rows: Iterable[QuantityComparison]) -> str:
    """Return a sentence with the machine, threads, load, package changes, days and commits.

    What differs between processes is given as a range or as a list.
    """
    machines: set[str] = set()
    threads: set[str] = set()
    commits: set[str] = set()
    packages: set[str] = set()
    loads: list[float] = []
    days: list[str] = []
    for row in rows:
        hardware = row.records.base[0].provenance.hardware  # one for all records of a machine
        cpu = hardware.get("cpu", "unknown")
        device = hardware.get("device", "unknown")
        machines.add(f"{row.machine} ({cpu}, device {device})")
        threads.add(str(row.records.base[0].provenance.threads))
        packages.update(list_package_changes(row.records))
        # commits, loads and days may differ from process to process
        for record in (*row.records.base, *row.records.change):
            provenance = record.provenance
            commits.add((provenance.commit or "unknown")[:10])
            days.append(provenance.measured_at.date().isoformat())
            for load in (provenance.load_before, provenance.load_after):
                if load is not None:
                    loads.append(load)
    load_range = "load unknown"
    if loads:
        load_range = f"load {min(loads):.1f} to {max(loads):.1f}"
    package_changes = ""
    if packages:
        package_changes = f"also different: {', '.join(sorted(packages))}; "
    measured = f"measured {format_span(min(days), max(days))} at {', '.join(sorted(commits))}"
    return (
        f"Machine {', '.join(sorted(machines))}, threads {', '.join(sorted(threads))}; "
        f"{load_range}; {package_changes}{measured}."
    )


def list_package_changes(records: CaseRecords) -> Iterator[str]:
    """Yield the packages that changed with the framework, such as `numpy 2.1 and 2.2`.

    The build of the framework is one of them, as its label names it (`2.13.0+cpu`).
    """
    framework = records.base[-1].parsed.framework
    old = records.base[-1].provenance.versions
    new = records.change[-1].provenance.versions
    for name in old.keys() & new.keys():
        if name != framework and old[name] != new[name]:
            yield f"{name} {old[name]} and {new[name]}"
    old_build = get_build(old.get(framework, ""))
    new_build = get_build(new.get(framework, ""))
    if old_build != new_build:
        yield f"{framework}'s build, {old_build} and {new_build}"


def get_build(version: str) -> str:
    """Return the label of a version's build, such as `cpu` of `2.13.0+cpu`, or `none`."""
    return version.partition("+")[2] or "none"


def describe_regression(row: QuantityComparison) -> str:
    """Return a regression in a line: the case, the quantity, by how much it grew, the machine."""
    growth = "" if row.ratio is None else f" {row.ratio - 1:+.1%}"
    return f"regression: {row.case}, {row.quantity}{growth} ({row.machine})"


def describe_changes(rows: Sequence[QuantityComparison]) -> str:
    """Return a sentence with the number of cases in which each quantity is worse and better.

    A case without a ratio, such as one that a release cannot run, is not counted.
    """
    verdicts_by_quantity: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.verdict in WITH_RATIO and row.ratio is not None:
            verdicts_by_quantity[row.quantity].append(row.verdict)
    texts = []
    for quantity, quantity_verdicts in verdicts_by_quantity.items():
        texts.append(describe_quantity(quantity, Counter(quantity_verdicts)))
    framework, old, new = parse_pair(rows[0].base, rows[0].change)
    compared = f"{TITLES[framework]} {new} against {old}, on {rows[0].machine}"
    changes = "; ".join(texts) or "nothing was decided"
    return f"{compared}: {changes}."


def describe_quantity(quantity: str, counts: Counter[str]) -> str:
    """Return in how many cases a quantity is worse, better, unchanged and undecided."""
    parts = []
    for verdict, words in (
        (REGRESSION, "worse"),
        (IMPROVEMENT, "better"),
        (NONE, "unchanged"),
        (UNDECIDED, "undecided"),
    ):
        if counts[verdict]:
            parts.append(f"{words} in {counts[verdict]}")
    return f"{quantity} is {', '.join(parts)} of {format_count(counts.total(), 'case')}"


def suggest_bisection(regressions: Sequence[QuantityComparison], file: str = "") -> str:
    """Return a hint with the command that finds where the largest regression of a peak began.

    It is "" without a regression of a peak. A user's model is named by its `file`.
    """
    peaks = [row for row in regressions if row.quantity == PEAK.name]
    if not peaks:
        return ""
    largest = max(peaks, key=lambda row: row.ratio or 0.0)
    return f"which release: {suggest_bisect(largest.base, largest.change, file or largest.case)}"


def make_report_tables(
    records: Iterable[Record], results: Path, machine_blocks: Blocks
) -> list[Table]:
    """Return a table for each version and the one before it, by machine and framework.

    Both versions must have measured a case. Only cases of a single process are in it. `results` has
    the explained steps. `machine_blocks` are those of `judge.compare_versions`.
    """
    find_cause = load_causes(results)
    changes = compare_successive(select_single(records), machine_blocks)
    return [make_table(rows, find_cause) for rows in changes]
