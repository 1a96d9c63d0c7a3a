"""What two versions of a framework differ by, for people: a table, its notes, and a sentence.

`judge.py` has the verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from packaging.version import Version

from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn
from framebench.analysis.reports import verdicts
from framebench.analysis.statistics import PEAK
from framebench.explain import table as explanations
from framebench.records.record import Record, parse_case
from framebench.strategies.strategy import TITLES
from framebench.versions.bisection_record import Bisection
from framebench.versions.judge import (
    EXPLAINED,
    FEW,
    IMPROVEMENT,
    NONE,
    REGRESSION,
    UNDECIDED,
    VERDICTS,
    QuantityComparison,
    compare_successive,
    parse_release,
)

FOLDED = (UNDECIDED, FEW)  # verdicts that are counted below a table, not shown
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


def find_no_cause(case: str, base: str, change: str) -> None:
    """Return no cause, where no step was explained."""


def make_table(
    rows: Sequence[QuantityComparison],
    find_cause: Cause = find_no_cause,
    folded: Sequence[str] = FOLDED,
) -> Table:
    """Return the rows of one pair of versions: regressions first, the largest ahead.

    Rows with the verdicts `folded` are counted in the notes. Raises ValueError for no rows.
    """
    if not rows:
        raise ValueError("no rows: no case has records of both versions")

    def sort_key(row: QuantityComparison) -> tuple[int, float]:
        return VERDICTS.index(row.verdict), -(row.ratio or 0)

    machines = {row.machine for row in rows}
    shown = sorted((row for row in rows if row.verdict not in folded), key=sort_key)
    columns = dict(COLUMNS)
    if len(machines) == 1:
        del columns["machine"]
    notes = [*list_reasons(rows), *list_causes(shown, find_cause), *count_folded(rows, folded)]
    return Table(
        make_title(rows[0].base, rows[0].change),
        f"Memory and times together: {count_verdicts(rows)}. {list_instruments(rows)}{RULE} "
        f"{describe_conditions(rows)}",
        pd.DataFrame([make_row(row) for row in shown], columns=list(COLUMNS)),
        columns,
        left=2 if len(machines) == 1 else 3,
        notes=tuple(dict.fromkeys(notes)),  # each once, in their order
        machine=rows[0].machine if len(machines) == 1 else "",
    )


def make_row(row: QuantityComparison) -> dict[str, object]:
    """Return the values of a row by column."""
    return {
        "machine": row.machine,
        "case": row.case,
        "quantity": row.quantity,
        "base": None if row.base_value is None else verdicts.format_value(row.base_value, row.unit),
        "change": None
        if row.change_value is None
        else verdicts.format_value(row.change_value, row.unit),
        "ratio": row.ratio,
        "interval": verdicts.format_interval(row.low, row.high),
        "minimum": None if row.minimum is None else f"{row.minimum * 100:g} %",
        "p": row.p,
        "blocks": row.blocks,
        "verdict": row.verdict,
    }


def make_title(base: str, change: str) -> str:
    """Return `jax 0.10.2 against 0.9.2`."""
    framework, old = parse_release(base)
    _, new = parse_release(change)
    return f"{framework} {new} against {old}"


def count_verdicts(rows: Iterable[QuantityComparison]) -> str:
    """Return `1 regression, 30 no difference`, in the order of VERDICTS."""
    counts = Counter(row.verdict for row in rows)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def list_instruments(rows: Iterable[QuantityComparison]) -> str:
    """Return a sentence that names the instruments of the peaks, or nothing where no peak is
    compared.
    """
    instruments = sorted({row.instrument for row in rows if row.instrument})
    return f"Peaks by {', '.join(instruments)}. " if instruments else ""


def list_reasons(rows: Iterable[QuantityComparison]) -> Iterator[str]:
    """Yield why there is no better verdict, where the caption does not explain it."""
    for row in rows:
        if row.reason and row.reason not in EXPLAINED:
            yield f"{row.case}, {row.quantity}: {row.verdict}: {row.reason}"


def list_causes(rows: Iterable[QuantityComparison], find_cause: Cause) -> Iterator[str]:
    """Yield why peaks changed, of cases that are explained in both versions."""
    for row in rows:
        if row.quantity == PEAK.name and row.verdict in (REGRESSION, IMPROVEMENT):
            cause = find_cause(row.case, row.base, row.change)
            if cause:
                yield f"{row.case}, {row.quantity}, by framebench explain: {cause}"


def count_folded(rows: Iterable[QuantityComparison], folded: Iterable[str]) -> Iterator[str]:
    """Yield `too few, not shown: step time of 23, first step of 23`, with the reason."""
    for verdict in folded:
        same_verdict = [row for row in rows if row.verdict == verdict]
        if same_verdict:
            counts = Counter(row.quantity for row in same_verdict)
            counted = ", ".join(f"{quantity} of {count}" for quantity, count in counts.items())
            reasons = sorted({row.reason for row in same_verdict if row.reason in EXPLAINED})
            why = f" ({'; '.join(reasons)})" if reasons else ""
            yield f"{verdict}, not shown: {counted}{why}"


def describe_changes(rows: Sequence[QuantityComparison]) -> str:
    """Return how many cases each quantity is worse and better in, and its largest regression."""
    decided = [
        row
        for row in rows
        if row.verdict in (REGRESSION, IMPROVEMENT, NONE) and row.ratio is not None
    ]
    counted = "; ".join(count_by_quantity(decided)) or "nothing was decided"
    framework, old = parse_release(rows[0].base)
    _, new = parse_release(rows[0].change)
    text = f"{TITLES[framework]} {new} against {old}, on {rows[0].machine}: {counted}."
    largest = "; ".join(list_largest_regressions(decided))
    if largest:
        text += f" Largest: {largest}."
    return text


def count_by_quantity(decided: Sequence[QuantityComparison]) -> Iterator[str]:
    """Yield in how many cases each quantity is worse and better."""
    for quantity in dict.fromkeys(row.quantity for row in decided):  # each once, in their order
        counts = Counter(row.verdict for row in decided if row.quantity == quantity)
        worse, better = counts[REGRESSION], counts[IMPROVEMENT]
        yield f"{quantity} is worse in {worse} of {counts.total()} cases, better in {better}"


def list_largest_regressions(decided: Sequence[QuantityComparison]) -> Iterator[str]:
    """Yield the largest regression of each quantity, the smallest of them first."""
    regressions = [row for row in decided if row.verdict == REGRESSION]
    largest = {row.quantity: row for row in sorted(regressions, key=lambda row: row.ratio or 0.0)}
    for quantity, row in largest.items():
        yield f"{row.ratio:.2f} x the {quantity} of {row.case} ({format_values(row)})"


def describe_release(regressions: Sequence[QuantityComparison], saved: Sequence[Bisection]) -> str:
    """Return which release a regression began in, by a bisection that was saved, or the command
    that finds out.

    Args:
        regressions: At least one. The largest of a peak is asked about, or else the largest.
        saved: Bisections of earlier releases.
    """
    peaks = [row for row in regressions if row.quantity == PEAK.name]
    largest = max(peaks or regressions, key=lambda row: row.ratio or 0.0)
    framework, old = parse_release(largest.base)
    _, new = parse_release(largest.change)
    if peaks:
        for bisection in saved:
            if answers_for(bisection, largest.case, old, new):
                return f"which release: {bisection.case} {bisection.answer}"
    option = "" if peaks else " --instructions"
    return (
        f"which release: framebench versions bisect --framework {framework} {old} {new} "
        f"{largest.case}{option}"
    )


def answers_for(bisection: Bisection, case_id: str, old: str, new: str) -> bool:
    """Return whether a bisection of measured peaks found a release between two for this strategy.

    It may be of another batch or size, which the answer names.
    """
    if bisection.device or bisection.quantity != "peak" or bisection.first is None:
        return False
    case, bisected = parse_case(case_id), parse_case(bisection.case)
    is_same = replace(bisected, batch=case.batch, size=case.size) == case
    return is_same and Version(old) < Version(bisection.first) <= Version(new)


def format_values(row: QuantityComparison) -> str:
    """Return both values of a row: `75.11 to 100.30 MiB by compiler.plan`."""
    base, unit = verdicts.format_value(row.base_value or 0.0, row.unit).split()
    change, _ = verdicts.format_value(row.change_value or 0.0, row.unit).split()
    instrument = f" by {row.instrument}" if row.instrument else ""
    return f"{base} to {change} {unit}{instrument}"


def describe_conditions(rows: Iterable[QuantityComparison]) -> str:
    """Return what was held constant, and what was not."""
    machines: set[str] = set()
    threads: set[str] = set()
    commits: set[str] = set()
    packages: set[str] = set()
    loads: list[float] = []
    days: list[str] = []
    for row in rows:
        conditions = row.conditions
        machines.add(f"{row.machine} ({conditions.cpu}, device {conditions.device})")
        threads.add(str(conditions.threads))
        commits.update(commit[:10] for commit in conditions.commits)
        packages.update(conditions.packages)
        loads += conditions.load or ()
        days += [conditions.first, conditions.last]
    load = f"load {min(loads):.1f} to {max(loads):.1f}" if loads else "load unknown"
    others = f"also different: {', '.join(sorted(packages))}; " if packages else ""
    first, last = min(days), max(days)
    measured = first if first == last else f"{first} to {last}"
    return (
        f"Machine {', '.join(sorted(machines))}, threads {', '.join(sorted(threads))}; {load}; "
        f"{others}measured {measured} at {', '.join(sorted(commits))}."
    )


def make_report_tables(records: Iterable[Record], results: Path) -> list[Table]:
    """Return what a report shows of versions, from the records of single processes."""
    single = [record for record in records if record.parsed.ranks == 1]
    return make_tables(single, explanations.load_causes(results))


def make_tables(records: Iterable[Record], find_cause: Cause = find_no_cause) -> list[Table]:
    """Return a table for each version and the one before it, by machine and framework, where both
    have a case.
    """
    return [make_table(rows, find_cause) for rows in compare_successive(records)]
