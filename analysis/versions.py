"""Did an upgrade of the framework cost memory or time? Verdicts on two versions, from the records that lie there.

`framebench versions run` measures the versions in rounds. A round is the i-th record of each version in one session; the rule
is that of `framebench compare` (`analysis.statistics`): the ratio within a round, its median over the rounds with an interval,
a minimum effect, and a rank test. Without enough rounds the verdict is `too few`, however far two numbers lie apart: records of
separate runs differ by whatever the machine did in between.

Throughput has no verdict of its own: it is work / step time, and more of it is better, which who looks for "more" gets wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from packaging.version import InvalidVersion, Version

from analysis import tables, verdicts
from analysis.statistics import FEWEST, PEAK, TIME, Quantity, judge
from analysis.tables import Comparison
from framebench import compare as measured
from framebench import records
from framebench.compare import Round
from framebench.records import Record
from framebench.strategies import FRAMEWORKS

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
STATUS = "status"  # the quantity of rows that tell of a case that does not run to its end in one of the versions


class UnknownVersion(ValueError):
    """A version, or a machine, that no record is of; the message lists those there are."""


class Conditions(NamedTuple):
    """Under which a case's records were made."""

    cpu: str
    device: str
    threads: int | None
    commits: tuple[str, ...]
    first: str  # day
    last: str
    load: tuple[float, float] | None  # lowest and highest of the one-minute load average
    packages: tuple[str, ...]  # beside the framework, what differs: `flax 0.12.6 and 0.12.8`


class Row(NamedTuple):
    """One quantity of one case in two versions. Seconds and bytes; values are medians over processes; None where there is
    no such number. `ratio` is change / base: above 1 is worse for every quantity."""

    machine: str
    case: str
    base: str  # jax==0.9.2
    change: str
    quantity: str
    unit: str
    instrument: str | None
    base_value: float | None
    change_value: float | None
    ratio: float | None
    low: float | None  # 95 % interval of the ratio
    high: float | None
    p: float | None
    minimum: float  # the relative difference that matters
    rounds: int
    verdict: str  # one of VERDICTS
    reason: str | None  # why there is no better verdict, or what to beware of
    conditions: Conditions


def parse(text: str) -> tuple[str, str]:
    """Framework and version of `jax==0.9.2`. Raises UnknownVersion."""
    framework, equals, version = text.partition("==")
    if framework not in FRAMEWORKS or not equals or not version:
        raise UnknownVersion(f"{text!r} is no version; write framework==version, with a framework of {', '.join(FRAMEWORKS)}")
    return framework, version


def compare(results: Path, base: str, change: str, machine: str | None = None, threshold: float | None = None) -> list[Row]:
    """A row for each quantity of each case that both versions (`jax==0.9.2`) have records of, by machine and case.

    `threshold` replaces the quantities' own minimum effects (memory 1 %, step time 3 %, first step 10 %). Raises
    UnknownVersion for what no record is of, and for two frameworks.
    """
    return rows_of(list(records.read_all(results)), base, change, machine, threshold)


def rows_of(
    found: Iterable[Record], base: str, change: str, machine: str | None = None, threshold: float | None = None
) -> list[Row]:
    """`compare`, on records that were read already."""
    arms = {text: parse(text) for text in (base, change)}
    if len(arms) < 2 or len({framework for framework, _ in arms.values()}) > 1:
        raise UnknownVersion(f"{base} and {change} are not two versions of one framework")
    usable = [r for r in found if r.status != "unsupported"]
    if machine is not None and machine not in (machines := sorted({r.provenance.machine for r in usable})):
        raise UnknownVersion(f"no records of a machine {machine!r}; there are: {', '.join(machines) or 'none'}")
    here = [r for r in usable if machine in (None, r.provenance.machine)]
    sides = [grouped(r for r in here if version_of(r) == arm) for arm in arms.values()]
    for text, side in zip(arms, sides):
        if not side:
            known = sorted({"==".join(map(str, version_of(r))) for r in here})
            on = f" on {machine}" if machine else ""
            raise UnknownVersion(f"no records of {text}{on}; there are: {', '.join(known) or 'none'}; framebench versions run")
    both = sorted(sides[0].keys() & sides[1].keys())
    return [row for key in both for row in judged(key, (base, change), sides[0][key], sides[1][key], threshold)]


def version_of(record: Record) -> tuple[str, str | None]:
    return record.case.split("/")[1], record.framework_version


Key = tuple[str, str]  # machine and case


def grouped(found: Iterable[Record]) -> dict[Key, list[Record]]:
    """By machine and case, in the order of measurement."""
    groups: dict[Key, list[Record]] = {}
    for record in sorted(found, key=lambda r: r.provenance.measured_at):
        groups.setdefault((record.provenance.machine, record.case), []).append(record)
    return groups


def paired(base: list[Record], change: list[Record]) -> list[Round]:
    """The rounds: within a session, the i-th record of one version with the i-th of the other.

    Only those made by the code, and under the conditions, of the newest: what we changed in between is no regression of theirs.
    """
    sessions = dict.fromkeys(r.provenance.session for r in base)
    rounds = [Round(*pair) for s in sessions for pair in zip(of_session(base, s), of_session(change, s))]
    newest = max(rounds, key=lambda r: r.base.provenance.measured_at, default=None)
    return [r for r in rounds if newest and setting(r.base) == setting(newest.base)]


def of_session(found: list[Record], session: str) -> list[Record]:
    return [r for r in found if r.provenance.session == session]


def setting(record: Record) -> tuple[object, ...]:
    """What must not differ between the rounds of a comparison."""
    proof = record.provenance
    return proof.commit, proof.dirty, proof.protocol, proof.threads, proof.hardware.get("cpu"), proof.hardware.get("device")


def judged(
    key: Key, arms: tuple[str, str], base: list[Record], change: list[Record], threshold: float | None = None
) -> list[Row]:
    """The rows of one case."""
    rounds = paired(base, change)
    used = ([r.base for r in rounds], [r.change for r in rounds]) if rounds else (base, change)
    blank = Row(
        *key, *arms, "", "", None, None, None, None, None, None, None, 0.0, 0, FEW, None, conditions(*used)
    )  # fmt: skip
    rows = [status_row(blank, *used, rounds)] if any(r.status != "ok" for side in used for r in side) else []
    good = [r for r in rounds if r.base.status == r.change.status == "ok"]
    fine = tuple([r for r in side if r.status == "ok"] for side in used)
    if not (fine[0] and fine[1]):
        return rows
    for quantity, value in VALUES.items():
        minimum = quantity.minimum if threshold is None else threshold
        rows.append(quantity_row(blank, quantity._replace(minimum=minimum), value, good, (fine[0], fine[1])))
    return rows


def status_row(blank: Row, base: list[Record], change: list[Record], rounds: list[Round]) -> Row:
    """Of a case that failed in some process. To fail in every round in one version, and in none in the other, is as unlikely
    by chance as what the rank test calls a difference."""
    failed = [sum(r.status != "ok" for r in side) for side in (base, change)]
    n = len(rounds)
    if n < FEWEST:
        verdict = FEW
    elif failed == [0, n]:
        verdict = REGRESSION
    elif failed == [n, 0]:
        verdict = IMPROVEMENT
    else:
        verdict = NONE if failed == [n, n] else UNDECIDED
    newest = next(r for r in reversed([*base, *change]) if r.status != "ok")
    reason = (
        f"failed in {failed[0]} of {len(base)} and {failed[1]} of {len(change)} processes: {newest.status}: {newest.reason}"
    )
    return blank._replace(quantity=STATUS, unit="", rounds=n, verdict=verdict, reason=reason)


def quantity_row(
    blank: Row,
    quantity: Quantity,
    value: Callable[[Record], float | None],
    rounds: list[Round],
    processes: tuple[list[Record], list[Record]],
) -> Row:
    """One quantity of one case. `processes` are the medians' where there are no rounds."""
    row = blank._replace(quantity=quantity.name, unit=quantity.unit, minimum=quantity.minimum)
    if quantity.name == PEAK.name:
        named = {r.peak_instrument for side in processes for r in side}
        if len(named) > 1:
            both = ", ".join(sorted(map(str, named)))
            return row._replace(verdict=INCOMPARABLE, rounds=len(rounds), reason=f"read by different instruments: {both}")
        row = row._replace(instrument=named.pop())
    pairs = [(b, c) for r in rounds if (b := value(r.base)) is not None and (c := value(r.change)) is not None]
    if len(pairs) < 2:
        return two_points(row, len(pairs), *([x for r in side if (x := value(r)) is not None] for side in processes))
    said = judge([b for b, _ in pairs], [c for _, c in pairs], quantity)
    row = row._replace(
        base_value=said.base,
        change_value=said.change,
        ratio=said.ratio,
        low=said.low,
        high=said.high,
        p=said.p,
        rounds=len(pairs),
    )
    if len(pairs) < FEWEST:
        return row._replace(reason=f"{len(pairs)} rounds, where {FEWEST} can show a difference")
    words = {quantity.more: REGRESSION, quantity.less: IMPROVEMENT}
    return row._replace(verdict=words.get(said.verdict, said.verdict), reason=caution(rounds) if row.unit == "s" else None)


def two_points(row: Row, rounds: int, base: list[float], change: list[float]) -> Row:
    """What is known without rounds: medians, and no interval to go with them."""
    reason = f"{len(base)} and {len(change)} processes, of which {rounds} were measured in turn; {FEWEST} of each are needed"
    if not base or not change:
        return row._replace(rounds=rounds, reason=reason)
    values = median(base), median(change)
    ratio = values[1] / values[0] if values[0] else None
    return row._replace(base_value=values[0], change_value=values[1], ratio=ratio, rounds=rounds, reason=reason)


def caution(rounds: list[Round]) -> str | None:
    """Why the times of these rounds deserve less trust, if they do."""
    return "; ".join(verdicts.cautions(measured.as_json(rounds))) or None


def conditions(base: list[Record], change: list[Record]) -> Conditions:
    proofs = [r.provenance for r in (*base, *change)]
    days = sorted(p.measured_at.date().isoformat() for p in proofs)
    loads = [load for p in proofs for load in (p.load_before, p.load_after) if load is not None]
    last = base[-1].provenance.versions, change[-1].provenance.versions
    framework = base[-1].case.split("/")[1]
    return Conditions(
        cpu=proofs[0].hardware.get("cpu", "unknown"),
        device=proofs[0].hardware.get("device", "unknown"),
        threads=proofs[0].threads,
        commits=tuple(sorted({p.commit or "unknown" for p in proofs})),
        first=days[0],
        last=days[-1],
        load=(min(loads), max(loads)) if loads else None,
        packages=tuple(
            f"{name} {last[0][name]} and {last[1][name]}"
            for name in sorted(last[0].keys() & last[1].keys())
            if name != framework and last[0][name] != last[1][name]
        ),
    )


HEAD = ("case", "quantity", "base", "change", "ratio", "95 % interval", "minimum", "p", "rounds", "verdict")


def table(rows: list[Row]) -> Comparison:
    """The rows for people; all of one pair of versions. Raises ValueError for no rows."""
    if not rows:
        raise ValueError("no rows: no case has records of both versions")
    machines = sorted({r.machine for r in rows})
    several = len(machines) > 1
    lines = tuple((*((r.machine,) if several else ()), *line(r)) for r in rows)
    return Comparison(
        title(rows[0].base, rows[0].change),
        f"{summary(rows)}. A round is one process of each version, in turn; ratio = change / base, median over the rounds with its "
        f"bootstrap 95 % interval, above 1 is worse. A difference is claimed if all of the interval lies beyond the minimum, and p "
        f"(Wilcoxon's test) is at most 5 %; fewer than {FEWEST} rounds are too few. MiB = 2^20 bytes. {held(rows)}",
        (*(("machine",) if several else ()), *HEAD),
        lines,
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
    minimum = f"{r.minimum:.3g}" if r.quantity == STATUS else f"{r.minimum:.0%}" if r.minimum >= 0.01 else f"{r.minimum:.1%}"
    return (
        r.case, r.quantity, *values, tables.number(r.ratio, ".3f"), interval, minimum, tables.number(r.p, ".3f"), str(r.rounds),
        r.verdict,
    )  # fmt: skip


def ordered(versions: Iterable[str | None]) -> list[str]:
    """Oldest first; what is no version by the common rules comes before all."""

    def place(version: str) -> tuple[bool, Version | str]:
        try:
            return True, Version(version)
        except InvalidVersion:
            return False, version

    return sorted({v for v in versions if v}, key=place)


def history(found: Iterable[Record]) -> dict[tuple[str, str], list[str]]:
    """The versions of each machine and framework that has more than one of them, oldest first."""
    seen: dict[tuple[str, str], set[str | None]] = {}
    for r in found:
        if r.status != "unsupported":
            seen.setdefault((r.provenance.machine, version_of(r)[0]), set()).add(r.framework_version)
    return {key: ordered(v) for key, v in sorted(seen.items()) if len(ordered(v)) > 1}


def comparisons(found: Iterable[Record]) -> list[Comparison]:
    """A table for each version and the one before it, by machine and framework, where both have a case."""
    kept = list(found)
    pairs = [(m, f, *pair) for (m, f), versions in history(kept).items() for pair in pairwise(versions)]
    rows = [rows_of(kept, f"{f}=={old}", f"{f}=={new}", m) for m, f, old, new in pairs]
    return [table(r) for r in rows if r]


class Point(NamedTuple):
    """One case in one version, in a session that measured other versions in turn with it."""

    machine: str
    case: str
    version: str
    processes: list[Record]  # at least FEWEST


def points(found: Iterable[Record]) -> list[Point]:
    """What may stand in one line as history: of each machine and case the newest session that has enough processes of two
    versions or more. Records of other sessions differ by whatever the machine did in between, and are left out."""
    usable = (r for r in found if r.status != "unsupported" and r.framework_version)
    return [point for key, processes in sorted(grouped(usable).items()) for point in newest_history(key, processes)]


def newest_history(key: Key, processes: list[Record]) -> list[Point]:
    for session in reversed(dict.fromkeys(r.provenance.session for r in processes)):
        within = of_session(processes, session)
        arms = [
            Point(*key, v, [r for r in within if r.framework_version == v])
            for v in ordered(r.framework_version for r in within)
        ]
        if len(enough := [arm for arm in arms if len(arm.processes) >= FEWEST]) > 1:
            return enough
    return []
