"""Did an upgrade of the framework cost memory or time? Verdicts on two versions, from the records that lie there.

`framebench versions run` measures the versions in rounds (`analysis.selection`). The rule is that of `framebench compare`
(`analysis.statistics`): the ratio within a round, its median over the rounds with an interval, a minimum effect, and a rank
test. Without enough rounds the verdict is `too few`, however far two numbers lie apart.

Throughput has no verdict of its own: it is work / step time, and what looks for "more" would take its growth for a regression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from packaging.version import InvalidVersion, Version

from analysis.comparison import Comparison, number
from analysis.reports import verdicts
from analysis.selection import measured_at, select_rounds
from analysis.statistics import FEWEST, PEAK, TIME, Quantity, judge
from framebench.records.record import Record
from framebench.records.rounds import Round, rounds_as_json
from framebench.suite.strategy import FRAMEWORKS

Key = tuple[str, str]  # machine and case
FIRST = Quantity("first step", "s", 0.10, "slower", "faster")  # mostly compilation, which scatters more than steps do
# what a process is judged by; of all of them less is better
VALUES: dict[Quantity, Callable[[Record], float | None]] = {
    PEAK: lambda record: record.peak_bytes,
    TIME: lambda record: record.step_time_s,
    FIRST: lambda record: record.first_step_s,
}
REGRESSION, IMPROVEMENT, NONE, UNDECIDED, FEW = "regression", "improvement", "no difference", "undecided", "too few"
INCOMPARABLE = "not comparable"
VERDICTS = (REGRESSION, IMPROVEMENT, NONE, UNDECIDED, FEW, INCOMPARABLE)
STATUS = "status"  # the quantity of a row that tells of a case that did not run to its end in some process


class UnknownVersion(ValueError):
    """A version that no record is of; the message lists those there are."""


class Conditions(NamedTuple):
    """Under which a case's records were made."""

    cpu: str
    device: str
    threads: int | None
    commits: tuple[str, ...]
    first: str  # day
    last: str
    load: tuple[float, float] | None  # lowest and highest of the one-minute load average
    packages: tuple[str, ...]  # beside the framework's release, what differs: `flax 0.12.6 and 0.12.8`


class Row(NamedTuple):
    """One quantity of one case in two versions. Seconds and bytes; values are medians over processes; None where there is
    no such number. `ratio` is change / base: above 1 is worse for every quantity."""

    machine: str
    case: str
    base: str  # jax==0.9.2
    change: str
    conditions: Conditions
    quantity: str = ""
    unit: str = ""
    instrument: str | None = None  # of the peak
    base_value: float | None = None
    change_value: float | None = None
    ratio: float | None = None  # median over the rounds
    low: float | None = None  # 95 % interval of the ratio
    high: float | None = None
    p: float | None = None
    minimum: float | None = None  # the relative difference that matters
    rounds: int = 0
    verdict: str = FEW  # one of VERDICTS
    reason: str | None = None  # why there is no better verdict, or what to beware of


def parse(text: str) -> tuple[str, str]:
    """Framework and version of `jax==0.9.2`. Raises UnknownVersion."""
    framework, _, version = text.partition("==")
    if framework not in FRAMEWORKS or not version:
        raise UnknownVersion(f"{text!r} is no version; write framework==version, with a framework of {', '.join(FRAMEWORKS)}")
    return framework, version


def rows_of(found: Iterable[Record], base: str, change: str, threshold: float | None = None) -> list[Row]:
    """A row for each quantity of each case that both versions (`jax==0.9.2`) have records of, by machine and case.

    `threshold` replaces the quantities' own minimum effects (memory 1 %, step time 3 %, first step 10 %). Raises
    UnknownVersion for what no record is of, and for two frameworks.
    """
    if base == change or parse(base)[0] != parse(change)[0]:
        raise UnknownVersion(f"{base} and {change} are not two versions of one framework")
    usable = [r for r in found if r.status != "unsupported"]
    one, other = side(usable, base), side(usable, change)
    both = sorted(one.keys() & other.keys())
    return [row for key in both for row in judged(key, (base, change), one[key], other[key], threshold)]


def side(found: list[Record], text: str) -> dict[Key, list[Record]]:
    """The records of one version. Raises UnknownVersion if there are none."""
    wanted = parse(text)
    own = grouped(r for r in found if release(r) == wanted)
    if not own:
        known = sorted({f"{framework}=={version}" for framework, version in map(release, found)})
        raise UnknownVersion(f"no records of {text}; there are: {', '.join(known) or 'none'}; framebench versions run")
    return own


def judged(
    key: Key, arms: tuple[str, str], base: list[Record], change: list[Record], threshold: float | None = None
) -> list[Row]:
    """The rows of one case."""
    rounds = select_rounds(base, change)
    if rounds:  # what was measured otherwise plays no part
        base, change = [r.base for r in rounds], [r.change for r in rounds]
    blank = Row(*key, *arms, conditions(base, change))
    fine = good(base), good(change)
    rows = [] if fine == (base, change) else [status_row(blank, base, change, len(rounds))]
    if not all(fine):
        return rows
    usable = [r for r in rounds if r.base.status == r.change.status == "ok"]
    for quantity in VALUES:
        minimum = quantity.minimum if threshold is None else threshold
        rows.append(quantity_row(blank, quantity, minimum, usable, fine))
    return rows


def good(found: list[Record]) -> list[Record]:
    return [r for r in found if r.status == "ok"]


def status_row(blank: Row, base: list[Record], change: list[Record], rounds: int) -> Row:
    """Of a case that failed in some process. To fail in every round in one version, and in none in the other, is as unlikely
    by chance as what the rank test calls a difference."""
    bad = [r for r in (*base, *change) if r.status != "ok"]
    failed = len(base) - len(good(base)), len(change) - len(good(change))
    decided = {(0, rounds): REGRESSION, (rounds, 0): IMPROVEMENT, (rounds, rounds): NONE}
    counted = f"failed in {failed[0]} of {len(base)} and {failed[1]} of {len(change)} processes"
    return blank._replace(
        quantity=STATUS, rounds=rounds, verdict=FEW if rounds < FEWEST else decided.get(failed, UNDECIDED),
        reason=f"{counted}: {bad[-1].status}: {bad[-1].reason}",
    )  # fmt: skip


def quantity_row(
    blank: Row, quantity: Quantity, minimum: float, rounds: list[Round], processes: tuple[list[Record], list[Record]]
) -> Row:
    """One quantity of one case. `processes` are the medians' where there are no rounds."""
    row = blank._replace(quantity=quantity.name, unit=quantity.unit, minimum=minimum)
    if quantity is PEAK:
        named = sorted({r.peak_instrument for found in processes for r in found if r.peak_instrument})
        if len(named) > 1:
            why = f"read by different instruments: {', '.join(named)}"
            return row._replace(rounds=len(rounds), verdict=INCOMPARABLE, reason=why)
        row = row._replace(instrument=next(iter(named), None))
    value = VALUES[quantity]
    whole = [r for r in rounds if value(r.base) is not None and value(r.change) is not None]
    row = row._replace(rounds=len(whole))
    if len(whole) < FEWEST:
        return too_few(row, *([x for r in found if (x := value(r)) is not None] for found in processes))
    base, change = ([x for r in arm if (x := value(r)) is not None] for arm in zip(*whole))
    said = judge(base, change, quantity._replace(minimum=minimum))
    words = {quantity.more: REGRESSION, quantity.less: IMPROVEMENT}
    return row._replace(
        base_value=said.base, change_value=said.change, ratio=said.ratio, low=said.low, high=said.high, p=said.p,
        verdict=words.get(said.verdict, said.verdict), reason=caution(whole) if quantity is TIME else None,
    )  # fmt: skip


def too_few(row: Row, base: list[float], change: list[float]) -> Row:
    """What is known without enough rounds: medians, and no interval to go with them."""
    reason = f"{len(base)} and {len(change)} processes, {row.rounds} of each in turn, where {FEWEST} can show a difference"
    if not base or not change:
        return row._replace(reason=reason)
    values = median(base), median(change)
    return row._replace(base_value=values[0], change_value=values[1], ratio=values[1] / values[0], reason=reason)


def caution(rounds: list[Round]) -> str | None:
    """Why the times of these rounds deserve less trust, if they do."""
    return "; ".join(verdicts.cautions(rounds_as_json(rounds))) or None


def conditions(base: list[Record], change: list[Record]) -> Conditions:
    proofs = [r.provenance for r in (*base, *change)]
    days = sorted(p.measured_at.date().isoformat() for p in proofs)
    loads = [load for p in proofs for load in (p.load_before, p.load_after) if load is not None]
    old, new = base[-1].provenance.versions, change[-1].provenance.versions
    framework, _ = release(base[-1])
    return Conditions(
        cpu=str(proofs[0].hardware.get("cpu", "unknown")),
        device=str(proofs[0].hardware.get("device", "unknown")),
        threads=proofs[0].threads,
        commits=tuple(sorted({p.commit or "unknown" for p in proofs})),
        first=days[0],
        last=days[-1],
        load=(min(loads), max(loads)) if loads else None,
        packages=tuple(differing(old, new, framework)),
    )


def differing(old: dict[str, str], new: dict[str, str], framework: str) -> Iterator[str]:
    """The packages that changed with the framework, and the build that the framework's own label names (`2.13.0+cpu`)."""
    for name in sorted((old.keys() & new.keys()) - {framework}):
        if old[name] != new[name]:
            yield f"{name} {old[name]} and {new[name]}"
    labels = [versions.get(framework, "").partition("+")[2] or "none" for versions in (old, new)]
    if len(set(labels)) > 1:
        yield f"{framework}'s build, {' and '.join(labels)}"


def release(record: Record) -> tuple[str, str | None]:
    """Framework and version; the version is unknown where a process ended before it could tell."""
    return record.case.split("/")[1], record.framework_version


def grouped(found: Iterable[Record]) -> dict[Key, list[Record]]:
    """By machine and case, in the order of measurement."""
    groups: dict[Key, list[Record]] = {}
    for record in sorted(found, key=measured_at):
        groups.setdefault((record.provenance.machine, record.case), []).append(record)
    return groups


def ordered(versions: Iterable[str | None]) -> list[str]:
    """Each version once, oldest first; what is no version by the common rules is left out."""
    found = set()
    for version in versions:
        try:
            found.add((Version(version or ""), version))
        except InvalidVersion:
            continue
    return [version for _, version in sorted(found) if version]


def history(found: Iterable[Record]) -> dict[tuple[str, str], list[str]]:
    """The versions of each machine and framework that has records of more than one, oldest first."""
    seen: dict[tuple[str, str], list[str | None]] = {}
    for r in found:
        if r.status != "unsupported":
            framework, version = release(r)
            seen.setdefault((r.provenance.machine, framework), []).append(version)
    several = {key: ordered(versions) for key, versions in sorted(seen.items())}
    return {key: versions for key, versions in several.items() if len(versions) > 1}


HEAD = ("case", "quantity", "base", "change", "ratio", "95 % interval", "minimum", "p", "rounds", "verdict")
RULE = (
    "A round is one process of each version, in turn; ratio = change / base, median over the rounds with its bootstrap 95 % "
    "interval, above 1 is worse. A difference is claimed if all of the interval lies beyond the minimum, and p (Wilcoxon's "
    f"test) is at most 5 %; fewer than {FEWEST} rounds are too few. MiB = 2^20 bytes."
)


def table(rows: list[Row]) -> Comparison:
    """The rows for people; all of one pair of versions. Raises ValueError for no rows."""
    if not rows:
        raise ValueError("no rows: no case has records of both versions")
    machines = sorted({r.machine for r in rows})
    several = len(machines) > 1
    return Comparison.of_text(
        title(rows[0].base, rows[0].change),
        f"{summary(rows)}. {RULE} {held(rows)}",
        (*(["machine"] if several else []), *HEAD),
        tuple((*([r.machine] if several else []), *line(r)) for r in rows),
        left=2 + several,
        notes=tuple(dict.fromkeys(f"{r.case}, {r.quantity}: {r.verdict}: {r.reason}" for r in rows if r.reason)),
        machine="" if several else machines[0],
    )


def title(base: str, change: str) -> str:
    """`jax 0.10.2 against 0.9.2`."""
    (framework, old), (_, new) = parse(base), parse(change)
    return f"{framework} {new} against {old}"


def summary(rows: list[Row]) -> str:
    """`1 regression, 30 no difference`; in the order of VERDICTS."""
    counts = Counter(r.verdict for r in rows)
    return ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])


def held(rows: list[Row]) -> str:
    """What was held constant, and what was not."""
    found = [r.conditions for r in rows]
    machines = ", ".join(sorted({f"{r.machine} ({r.conditions.cpu}, device {r.conditions.device})" for r in rows}))
    loads = [load for c in found if c.load for load in c.load]
    days = " to ".join(dict.fromkeys((min(c.first for c in found), max(c.last for c in found))))
    packages = sorted({p for c in found for p in c.packages})
    return (
        f"Machine {machines}, threads {', '.join(sorted({str(c.threads) for c in found}))}; "
        + (f"load {min(loads):.1f} to {max(loads):.1f}; " if loads else "load unknown; ")
        + (f"also different: {', '.join(packages)}; " if packages else "")
        + f"measured {days} at {', '.join(sorted({commit[:10] for c in found for commit in c.commits}))}."
    )


def line(r: Row) -> tuple[str, ...]:
    factor, unit = verdicts.FACTORS.get(r.unit, (1.0, ""))
    values = ("-" if x is None else f"{x * factor:,.2f} {unit}" for x in (r.base_value, r.change_value))
    interval = "-" if r.low is None or r.high is None else f"{r.low:.3f} to {r.high:.3f}"
    minimum = "-" if r.minimum is None else f"{r.minimum * 100:g} %"
    ratio, p = number(r.ratio, ".3f"), number(r.p, ".3f")
    return r.case, r.quantity, *values, ratio, interval, minimum, p, str(r.rounds), r.verdict


def comparisons(found: Iterable[Record]) -> list[Comparison]:
    """A table for each version and the one before it, by machine and framework, where both have a case."""
    kept = list(found)
    made = []
    for (machine, framework), known in history(kept).items():
        own = [r for r in kept if r.provenance.machine == machine]
        for old, new in pairwise(known):
            if rows := rows_of(own, f"{framework}=={old}", f"{framework}=={new}"):
                made.append(table(rows))
    return made
