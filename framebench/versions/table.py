"""What two versions of a framework differ by, for people: a table, its notes, and a sentence. `judge.py` has the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from framebench.analysis.comparison import DETAIL, ESSENTIAL, Comparison, Shown, number
from framebench.analysis.reports import verdicts
from framebench.analysis.statistics import FEW as BLOCKS
from framebench.analysis.statistics import NO_INTERVAL, PEAK
from framebench.explain import table as explanations
from framebench.records.record import Record
from framebench.strategies.strategy import TITLES
from framebench.versions.judge import (
    APART,
    FEW,
    IMPROVEMENT,
    NONE,
    REGRESSION,
    UNDECIDED,
    VERDICTS,
    Row,
    parse,
    successive,
)  # fmt: skip

FOLDED = (UNDECIDED, FEW)  # counted below a table, not shown
HEAD = (
    "case",
    "quantity",
    "base",
    "change",
    Shown("ratio", priority=ESSENTIAL),
    Shown("95 % interval", priority=DETAIL),
    Shown("minimum", priority=DETAIL),
    Shown("p", priority=DETAIL),
    Shown("blocks", priority=DETAIL),
    Shown("verdict", priority=ESSENTIAL),
)
RULE = (
    "Ratio: change over base; above 1 is worse. Ratios of times come from paired rounds of a block, so they can differ from "
    "the quotient of the columns. A difference is claimed if it exceeds the minimum and chance gives it in at most 5 %, "
    f"corrected for the number of tests (Holm). Of times fewer than {BLOCKS} shared blocks are too few. How it is decided: "
    "docs/versions.md. MiB = 2^20 bytes."
)


Cause = Callable[[str, str, str], str | None]  # case, base and change, such as `jax==0.9.2`: why its peak changed


def _unexplained(case: str, base: str, change: str) -> None:
    """Where no step was explained."""


def table(rows: list[Row], cause: Cause = _unexplained, folded: Sequence[str] = FOLDED) -> Comparison:
    """The rows for people, of one pair of versions: regressions first, the largest ahead; what is undecided is counted below,
    by these verdicts. Raises ValueError for no rows."""
    if not rows:
        raise ValueError("no rows: no case has records of both versions")
    machines = sorted({r.machine for r in rows})
    several = len(machines) > 1
    shown = sorted((r for r in rows if r.verdict not in folded), key=lambda r: (VERDICTS.index(r.verdict), -(r.ratio or 0)))
    return Comparison.of_text(
        title(rows[0].base, rows[0].change),
        f"Memory and times together: {summary(rows)}. {read_by(rows)}{RULE} {held(rows)}",
        (*(["machine"] if several else []), *HEAD),
        tuple((*([r.machine] if several else []), *line(r)) for r in shown),
        left=2 + several,
        notes=tuple(dict.fromkeys([*reasons(rows), *causes(shown, cause), *_folded(rows, folded)])),
        machine="" if several else machines[0],
    )


def read_by(rows: list[Row]) -> str:
    """Return a sentence that names the instruments of the peaks, or nothing where no peak is compared."""
    instruments = sorted({row.instrument for row in rows if row.instrument})
    return f"Peaks by {', '.join(instruments)}. " if instruments else ""


def reasons(rows: list[Row]) -> Iterator[str]:
    """Where the caption does not tell them."""
    for r in rows:
        if r.reason and r.reason not in (APART, NO_INTERVAL):
            yield f"{r.case}, {r.quantity}: {r.verdict}: {r.reason}"


def causes(shown: list[Row], cause: Cause) -> Iterator[str]:
    """Of peaks that changed in cases that are explained in both versions."""
    for r in shown:
        changed = r.quantity == PEAK.name and r.verdict in (REGRESSION, IMPROVEMENT)
        if changed and (explanation := cause(r.case, r.base, r.change)):
            yield f"{r.case}, {r.quantity}, by framebench explain: {explanation}"


def _folded(rows: list[Row], folded: Sequence[str]) -> Iterator[str]:
    """`too few, not shown: step time of 23, first step of 23`, with the reason."""
    for folded_verdict in folded:
        mine = [r for r in rows if r.verdict == folded_verdict]
        if mine:
            counts = Counter(r.quantity for r in mine)
            why = sorted({r.reason for r in mine if r.reason in (APART, NO_INTERVAL)})
            cases = ", ".join(f"{quantity} of {count}" for quantity, count in counts.items())
            yield f"{folded_verdict}, not shown: {cases}{' (' if why else ''}{'; '.join(why)}{')' if why else ''}"


def title(base: str, change: str) -> str:
    """`jax 0.10.2 against 0.9.2`."""
    (framework, old), (_, new) = parse(base), parse(change)
    return f"{framework} {new} against {old}"


def summary(rows: list[Row]) -> str:
    """`1 regression, 30 no difference`; in the order of VERDICTS."""
    counts = Counter(r.verdict for r in rows)
    return ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])


def in_words(rows: list[Row]) -> str:
    """What changed, in a few sentences: of each quantity how many cases are worse and better, and the largest regression."""
    decided = [r for r in rows if r.verdict in (REGRESSION, IMPROVEMENT, NONE) and r.ratio is not None]
    counted = [_counted(quantity, decided) for quantity in dict.fromkeys(r.quantity for r in decided)]
    worst = {r.quantity: r for r in sorted(decided, key=lambda r: r.ratio or 0.0) if r.verdict == REGRESSION}
    largest = "; ".join(f"{r.ratio:.2f} x the {name} of {r.case} ({_both(r)})" for name, r in worst.items())
    (framework, old), (_, new) = parse(rows[0].base), parse(rows[0].change)
    return (
        f"{TITLES[framework]} {new} against {old}, on {rows[0].machine}: {'; '.join(counted) or 'nothing was decided'}."
        f"{f' Largest: {largest}.' if largest else ''}"
    )


def _both(r: Row) -> str:
    """`75.11 to 100.30 MiB by compiler.plan`."""
    (base, unit), (change, _) = (verdicts.format_value(x or 0.0, r.unit).split() for x in (r.base_value, r.change_value))
    instrument = f" by {r.instrument}" if r.instrument else ""
    return f"{base} to {change} {unit}{instrument}"


def _counted(quantity: str, decided: list[Row]) -> str:
    verdicts = Counter(r.verdict for r in decided if r.quantity == quantity)
    return f"{quantity} is worse in {verdicts[REGRESSION]} of {verdicts.total()} cases, better in {verdicts[IMPROVEMENT]}"


def held(rows: list[Row]) -> str:
    """What was held constant, and what was not."""
    all_conditions = [r.conditions for r in rows]
    machines = ", ".join(sorted({f"{r.machine} ({r.conditions.cpu}, device {r.conditions.device})" for r in rows}))
    loads = [load for c in all_conditions if c.load for load in c.load]
    days = " to ".join(dict.fromkeys((min(c.first for c in all_conditions), max(c.last for c in all_conditions))))
    packages = sorted({p for c in all_conditions for p in c.packages})
    return (
        f"Machine {machines}, threads {', '.join(sorted({str(c.threads) for c in all_conditions}))}; "
        + (f"load {min(loads):.1f} to {max(loads):.1f}; " if loads else "load unknown; ")
        + (f"also different: {', '.join(packages)}; " if packages else "")
        + f"measured {days} at {', '.join(sorted({commit[:10] for c in all_conditions for commit in c.commits}))}."
    )


def line(r: Row) -> tuple[str, ...]:
    values = ("-" if x is None else verdicts.format_value(x, r.unit) for x in (r.base_value, r.change_value))
    minimum = "-" if r.minimum is None else f"{r.minimum * 100:g} %"
    ratio, p = number(r.ratio, ".3f"), number(r.p, ".3f")
    return r.case, r.quantity, *values, ratio, verdicts.format_interval(r.low, r.high), minimum, p, str(r.blocks), r.verdict


def of_machine(records: Sequence[Record], results: Path) -> list[Comparison]:
    """What a report shows of versions; of single processes."""
    return comparisons([r for r in records if r.parsed.ranks == 1], explanations.causes(results))


def comparisons(records: Iterable[Record], cause: Cause = _unexplained) -> list[Comparison]:
    """A table for each version and the one before it, by machine and framework, where both have a case."""
    return [table(rows, cause) for rows in successive(records)]
