"""Did an upgrade of the framework cost memory or time? Verdicts on two versions, from the records that lie there.

`framebench versions run` measures the versions in blocks. The rule is that of every other ratio
(`framebench.analysis.statistics`), and the p of all times on one page are corrected for their number (Holm). Where two
versions share fewer than three blocks the verdict on times is `too few`, however far two numbers lie apart.

Throughput has no verdict of its own: it is work / step time, and what looks for "more" would take its growth for a regression.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import geometric_mean
from typing import NamedTuple

from packaging.version import InvalidVersion, Version
from scipy import stats

from framebench.analysis.blocks import Blocks, blocks_of_both
from framebench.analysis.reports import verdicts
from framebench.analysis.reports.verdicts import INSTRUCTIONS, SAME_WORK, Verdict
from framebench.analysis.selection import counting, measured_at
from framebench.analysis.statistics import (
    CONFIDENCE,
    NO_INTERVAL,
    PEAK,
    TIME,
    Quantity,
    Ratio,
    compare_blocks,
    correct_by_holm,
    decide,
)
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS

Key = tuple[str, str]  # machine and case
FIRST = Quantity("first step", "s", 0.10, "slower", "faster")  # mostly compilation, which scatters more than steps do
QUANTITIES = (PEAK, TIME, FIRST)  # of all of them less is better
REGRESSION, IMPROVEMENT, NONE, UNDECIDED, FEW = "regression", "improvement", "no difference", "undecided", "too few"
INCOMPARABLE, OTHER_WORK = "not comparable", INSTRUCTIONS.more
VERDICTS = (REGRESSION, IMPROVEMENT, OTHER_WORK, INCOMPARABLE, NONE, SAME_WORK, UNDECIDED, FEW)  # as a table has them
# why there is no better verdict, where the caption tells it too
APART = "no timed block has both releases"
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
    """One quantity of one case in two versions. Seconds and bytes; values are those of `verdicts.Verdict`, None where there is
    no such number. `ratio` is change / base: above 1 is worse for every quantity but instructions."""

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
    ratio: float | None = None
    low: float | None = None  # 95 % interval of the ratio
    high: float | None = None
    p: float | None = None  # corrected for the number of tests among these rows
    minimum: float | None = None  # the relative difference that matters
    blocks: int = 0  # of times; processes of peaks and of a status
    verdict: str = FEW  # one of VERDICTS
    reason: str | None = None  # why there is no better verdict


def parse(text: str) -> tuple[str, str]:
    """Framework and version of `jax==0.9.2`. Raises UnknownVersion."""
    framework, _, version = text.partition("==")
    if framework not in FRAMEWORKS or not version:
        raise UnknownVersion(f"{text!r} is no version; write framework==version, with a framework of {', '.join(FRAMEWORKS)}")
    return framework, version


def rows_of(all_records: Iterable[Record], base: str, change: str, threshold: float | None = None) -> list[Row]:
    """A row for each quantity of each case that both versions (`jax==0.9.2`) have records of, by machine and case.

    `threshold` replaces the quantities' own minimum effects (memory 1 %, step time 3 %, first step 10 %). Raises
    UnknownVersion for what no record is of, and for two frameworks.
    """
    if base == change or parse(base)[0] != parse(change)[0]:
        raise UnknownVersion(f"{base} and {change} are not two versions of one framework")
    usable = [r for r in counting(all_records) if r.status != "unsupported"]
    one, other = side(usable, base), side(usable, change)
    blocks = Blocks(usable)
    both = sorted(one.keys() & other.keys())
    rows = [row for key in both for row in judged(key, (base, change), one[key], other[key], blocks, threshold)]
    return corrected(rows)


def corrected(rows: list[Row]) -> list[Row]:
    """Verdicts by p that were corrected for the number of tests among these rows."""
    tested = [i for i, r in enumerate(rows) if r.p is not None]
    corrected_rows = list(rows)
    for i, p in zip(tested, correct_by_holm([rows[i].p or 0.0 for i in tested])):
        r = rows[i]
        quantity = Quantity(r.quantity, r.unit, r.minimum or 0.0, REGRESSION, IMPROVEMENT)
        corrected_rows[i] = r._replace(p=p, verdict=decide(Ratio(r.ratio or 0.0, r.low, r.high, p, r.blocks), quantity))
    return corrected_rows


def side(all_records: list[Record], text: str) -> dict[Key, list[Record]]:
    """The records of one version. Raises UnknownVersion if there are none."""
    wanted = parse(text)
    records_by_key = _grouped(r for r in all_records if release(r) == wanted)
    if not records_by_key:
        version_names = sorted({f"{framework}=={version}" for framework, version in map(release, all_records)})
        raise UnknownVersion(f"no records of {text}; there are: {', '.join(version_names) or 'none'}; framebench versions run")
    return records_by_key


def judged(
    key: Key, arms: tuple[str, str], base: list[Record], change: list[Record], blocks: Blocks, threshold: float | None = None
) -> list[Row]:
    """The rows of one case; p not yet corrected."""
    blank = Row(*key, *arms, conditions(base, change))
    fine = good(base), good(change)
    rows = [] if fine == (base, change) else [_status_row(blank, base, change)]
    if not all(fine):
        return rows
    chosen = [q if threshold is None else q._replace(minimum=threshold) for q in QUANTITIES]
    return rows + [_quantity_row(blank, q, *fine, blocks) for q in chosen] + _work_row(blank, *fine)


def good(records: list[Record]) -> list[Record]:
    return [r for r in records if r.status == "ok"]


def _status_row(blank: Row, base: list[Record], change: list[Record]) -> Row:
    """Of a case that failed in some process: decided by Fisher's exact test (1922), which takes four processes of each."""
    bad = [r for r in (*base, *change) if r.status != "ok"]
    counts = [(len(arm) - len(good(arm)), len(good(arm))) for arm in (base, change)]
    (failed, fine), (failed_now, fine_now) = counts
    p = float(stats.fisher_exact(counts).pvalue)
    direction = REGRESSION if failed_now * fine > failed * fine_now else IMPROVEMENT
    decided = NONE if not fine and not fine_now else direction if p <= 1 - CONFIDENCE else UNDECIDED
    counted = f"failed in {failed} of {len(base)} processes of the base and {failed_now} of {len(change)} of the change"
    return blank._replace(
        quantity=STATUS, blocks=min(len(base), len(change)), verdict=decided,
        reason=f"{counted}: {bad[-1].status}: {bad[-1].reason}",
    )  # fmt: skip


def _quantity_row(blank: Row, quantity: Quantity, base: list[Record], change: list[Record], blocks: Blocks) -> Row:
    """One quantity of one case."""
    row = blank._replace(quantity=quantity.name, unit=quantity.unit, minimum=quantity.minimum)
    if quantity.name == PEAK.name:
        named = sorted({name for arm in (base, change) if (name := verdicts.newest_peaks([r for r in arm if r.peaks])[0])})
        if len(named) > 1:
            return row._replace(verdict=INCOMPARABLE, reason=f"read by different instruments: {', '.join(named)}")
        comparison = verdicts.compare_memory(base, change, quantity)
    elif quantity.name == TIME.name:
        comparison = verdicts.compare_times(base, change, blocks, quantity)
    else:
        comparison = _of_first_steps(base, change, quantity)
    if comparison is None:
        return row._replace(reason="there are no peaks of both" if quantity.name == PEAK.name else APART)
    return _filled(row, comparison, {quantity.more: REGRESSION, quantity.less: IMPROVEMENT})


def _of_first_steps(base: Sequence[Record], change: Sequence[Record], quantity: Quantity) -> Verdict | None:
    """Of the processes of one block, which compile one after the other."""
    pairs = blocks_of_both(base, change)
    times = [(b.first_step_s, c.first_step_s) for b, c in pairs if b.first_step_s and c.first_step_s]
    if not times:
        return None
    ratio = compare_blocks([math.log(c / b) for b, c in times])
    return verdicts.make_verdict(quantity, ratio, *map(geometric_mean, zip(*times)))


def _work_row(blank: Row, base: list[Record], change: list[Record]) -> list[Row]:
    """Whether a step still makes the same instructions, where the processor counts them."""
    comparison = verdicts.compare_instructions(base, change)
    return (
        [_filled(blank._replace(quantity=INSTRUCTIONS.name, minimum=INSTRUCTIONS.minimum), comparison, {})]
        if comparison
        else []
    )


def _filled(row: Row, comparison: Verdict, words: dict[str, str]) -> Row:
    few = comparison.low is None and comparison.quantity != INSTRUCTIONS.name
    return row._replace(
        base_value=comparison.base, change_value=comparison.change, ratio=comparison.ratio, low=comparison.low,
        high=comparison.high, p=comparison.p,
        blocks=comparison.blocks, instrument=comparison.instrument,
        verdict=FEW if few else words.get(comparison.verdict, comparison.verdict),
        reason=NO_INTERVAL if few else None,
    )  # fmt: skip


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
        packages=tuple(_differing(old, new, framework)),
    )


def _differing(old: dict[str, str], new: dict[str, str], framework: str) -> Iterator[str]:
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


def _grouped(records: Iterable[Record]) -> dict[Key, list[Record]]:
    """By machine and case, in the order of measurement."""
    groups: dict[Key, list[Record]] = {}
    for record in sorted(records, key=measured_at):
        groups.setdefault((record.provenance.machine, record.case), []).append(record)
    return groups


def ordered(versions: Iterable[str | None]) -> list[str]:
    """Each version once, oldest first; what is no version by the common rules is left out."""
    parsed_versions = set()
    for version in versions:
        try:
            parsed_versions.add((Version(version or ""), version))
        except InvalidVersion:
            continue
    return [version for _, version in sorted(parsed_versions) if version]


def _history(all_records: Iterable[Record]) -> dict[tuple[str, str], list[str]]:
    """The versions of each machine and framework that has records of more than one, oldest first."""
    seen: dict[tuple[str, str], list[str | None]] = {}
    for r in all_records:
        if r.status != "unsupported":
            framework, version = release(r)
            seen.setdefault((r.provenance.machine, framework), []).append(version)
    several = {key: ordered(versions) for key, versions in sorted(seen.items())}
    return {key: versions for key, versions in several.items() if len(versions) > 1}


def successive(records: Iterable[Record]) -> Iterator[list[Row]]:
    """The rows of each version and the one before it."""
    kept = list(records)
    for (machine, framework), releases in _history(kept).items():
        machine_records = [r for r in kept if r.provenance.machine == machine]
        for old, new in pairwise(releases):
            if rows := rows_of(machine_records, f"{framework}=={old}", f"{framework}=={new}"):
                yield rows
