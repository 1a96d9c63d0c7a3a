"""Did an upgrade of the framework cost memory or time? Verdicts on two versions, from records.

`framebench versions run` measures the versions in blocks. The rule is that of every other ratio
(`framebench.analysis.statistics`), and the p of all times on one page are corrected for their
number (Holm). Where two versions share fewer than three blocks the verdict on times is `too few`,
however far two numbers lie apart.

Throughput has no verdict of its own: it is work / step time, and a rule by which less is better
would take its growth for a regression.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import geometric_mean
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version
from scipy import stats

from framebench.analysis.blocks import Blocks, match_blocks
from framebench.analysis.reports import verdicts
from framebench.analysis.reports.verdicts import INSTRUCTIONS, SAME_WORK, Verdict
from framebench.analysis.selection import get_measurement_time, select_current
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
from framebench.analysis.statistics import FEW as FEW_BLOCKS
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS

Key = tuple[str, str]  # machine and case
# mostly compilation, which scatters more than steps do
FIRST = Quantity("first step", "s", 0.10, "slower", "faster")
QUANTITIES = (PEAK, TIME, FIRST)  # of all of them less is better
REGRESSION, IMPROVEMENT, NONE, UNDECIDED, FEW = (
    "regression",
    "improvement",
    "no difference",
    "undecided",
    "too few",
)
INCOMPARABLE, OTHER_WORK = "not comparable", INSTRUCTIONS.more
# as a table has them
VERDICTS = (REGRESSION, IMPROVEMENT, OTHER_WORK, INCOMPARABLE, NONE, SAME_WORK, UNDECIDED, FEW)
# why there is no better verdict, where the caption explains it too
APART = "no timed block has both releases"
# a first step counts where nothing that it compiles was compiled before
FEW_FIRST_STEPS = f"fewer than {FEW_BLOCKS} blocks have first steps with fresh caches"
EXPLAINED = (APART, NO_INTERVAL, FEW_FIRST_STEPS)
STATUS = "status"  # the quantity of a row about a case that did not run to its end in some process


class UnknownVersion(ValueError):
    """A version that no record is of; the message lists those there are."""


class VersionConditions(NamedTuple):
    """Under which a case's records were made."""

    cpu: str
    device: str
    threads: int | None
    commits: tuple[str, ...]
    first: str  # day
    last: str
    load: tuple[float, float] | None  # lowest and highest of the one-minute load average
    # what differs apart from the framework's release: `flax 0.12.6 and 0.12.8`
    packages: tuple[str, ...]


class QuantityComparison(NamedTuple):
    """One quantity of one case in two versions, in seconds or bytes.

    Values are those of `verdicts.Verdict`; None where there is no such number. `ratio` is change /
    base: above 1 is worse for every quantity but instructions. A named tuple, as pandas makes
    columns of its fields and leaves `conditions` as it is.
    """

    machine: str
    case: str
    base: str  # jax==0.9.2
    change: str
    conditions: VersionConditions
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

    def as_dict(self) -> dict[str, Any]:
        """Return the row for programs."""
        return self._asdict() | {"conditions": self.conditions._asdict()}


@dataclass(frozen=True)
class CaseRecords:
    """The records of one case on one machine in two versions, in the order of measurement."""

    base: list[Record]
    change: list[Record]

    @property
    def succeeded(self) -> CaseRecords:
        """Return the records of processes that ran to their end."""
        return CaseRecords(select_succeeded(self.base), select_succeeded(self.change))


def parse_release(text: str) -> tuple[str, str]:
    """Return framework and version of `jax==0.9.2`. Raises UnknownVersion."""
    framework, _, version = text.partition("==")
    if framework not in FRAMEWORKS or not version:
        choices = ", ".join(FRAMEWORKS)
        raise UnknownVersion(
            f"{text!r} is no version; write framework==version, with a framework of {choices}"
        )
    return framework, version


def compare_versions(
    records: Iterable[Record], base: str, change: str, threshold: float | None = None
) -> list[QuantityComparison]:
    """Compare each quantity of each case that both versions (`jax==0.9.2`) have records of, by
    machine and case.

    `threshold` replaces the quantities' own minimum effects (memory 1 %, step time 3 %, first step
    10 %). Raises UnknownVersion for what no record is of, and for two frameworks.
    """
    if base == change or parse_release(base)[0] != parse_release(change)[0]:
        raise UnknownVersion(f"{base} and {change} are not two versions of one framework")
    usable = [record for record in select_current(records) if record.status != "unsupported"]
    base_records = select_version(usable, base)
    change_records = select_version(usable, change)
    blocks = Blocks(usable)
    rows = []
    for machine, case in sorted(base_records.keys() & change_records.keys()):
        pair = CaseRecords(base_records[machine, case], change_records[machine, case])
        blank = QuantityComparison(machine, case, base, change, collect_conditions(pair))
        rows += compare_case(blank, pair, blocks, threshold)
    return correct_rows(rows)


def correct_rows(rows: Sequence[QuantityComparison]) -> list[QuantityComparison]:
    """Return the rows with p, and verdicts by it, corrected for the number of tests among them."""
    tested = [place for place, row in enumerate(rows) if row.p is not None]
    corrected = correct_by_holm([rows[place].p or 0.0 for place in tested])
    corrected_rows = list(rows)
    for place, p in zip(tested, corrected):
        row = rows[place]
        quantity = Quantity(row.quantity, row.unit, row.minimum or 0.0, REGRESSION, IMPROVEMENT)
        ratio = Ratio(row.ratio or 0.0, row.low, row.high, p, row.blocks)
        corrected_rows[place] = row._replace(p=p, verdict=decide(ratio, quantity))
    return corrected_rows


def select_version(records: Sequence[Record], text: str) -> dict[Key, list[Record]]:
    """Return the records of one version, in the order of measurement.

    Raises UnknownVersion if there are none.
    """
    release = parse_release(text)
    selected: dict[Key, list[Record]] = {}
    for record in sorted(records, key=get_measurement_time):
        if release_of(record) == release:
            selected.setdefault((record.provenance.machine, record.case), []).append(record)
    if not selected:
        releases = sorted(
            {f"{framework}=={version}" for framework, version in map(release_of, records)}
        )
        raise UnknownVersion(
            f"no records of {text}; there are: {', '.join(releases) or 'none'}; "
            "framebench versions run"
        )
    return selected


def compare_case(
    blank: QuantityComparison, pair: CaseRecords, blocks: Blocks, threshold: float | None
) -> list[QuantityComparison]:
    """Return the comparisons of one case by quantity; p values are not corrected for their number.

    Args:
        blank: A comparison with case and versions filled in, which the rows are made from.
        pair: The records of the case in both versions.
        blocks: The blocks in which both versions were measured.
        threshold: The smallest change that matters, or None for each quantity's own.
    """
    succeeded = pair.succeeded
    rows = []
    if succeeded != pair:
        rows.append(compare_statuses(blank, pair))
    if not succeeded.base or not succeeded.change:
        return rows
    for quantity in QUANTITIES:
        if threshold is not None:
            quantity = quantity._replace(minimum=threshold)
        rows.append(compare_quantity(blank, quantity, succeeded, blocks))
    work = verdicts.compare_instructions(succeeded.base, succeeded.change)
    if work:  # where the processor counts instructions
        row = blank._replace(
            quantity=INSTRUCTIONS.name, minimum=INSTRUCTIONS.minimum, verdict=work.verdict
        )
        rows.append(fill_in(row, work))
    return rows


def select_succeeded(records: Sequence[Record]) -> list[Record]:
    """Return the records of processes that ran to their end."""
    return [record for record in records if record.status == "ok"]


def compare_statuses(blank: QuantityComparison, pair: CaseRecords) -> QuantityComparison:
    """Compare how often a case failed.

    It is decided by Fisher's exact test (1922), which takes four processes of each.
    """
    base_count, change_count = len(pair.base), len(pair.change)
    base_succeeded, change_succeeded = len(pair.succeeded.base), len(pair.succeeded.change)
    base_failed, change_failed = base_count - base_succeeded, change_count - change_succeeded
    p = float(
        stats.fisher_exact(
            [(base_failed, base_succeeded), (change_failed, change_succeeded)]
        ).pvalue
    )
    if not base_succeeded and not change_succeeded:
        verdict = NONE
    elif p > 1 - CONFIDENCE:
        verdict = UNDECIDED
    elif change_failed * base_succeeded > base_failed * change_succeeded:
        verdict = REGRESSION
    else:
        verdict = IMPROVEMENT
    last = [record for record in (*pair.base, *pair.change) if record.status != "ok"][-1]
    base_text = f"{base_failed} of {base_count} processes of the base"
    change_text = f"{change_failed} of {change_count} of the change"
    return blank._replace(
        quantity=STATUS,
        blocks=min(base_count, change_count),
        verdict=verdict,
        reason=f"failed in {base_text} and {change_text}: {last.status}: {last.reason}",
    )


def compare_quantity(
    blank: QuantityComparison, quantity: Quantity, pair: CaseRecords, blocks: Blocks
) -> QuantityComparison:
    """Compare one quantity of one case."""
    row = blank._replace(quantity=quantity.name, unit=quantity.unit, minimum=quantity.minimum)
    missing = APART
    if quantity.name == PEAK.name:
        instruments = list_instruments(pair)
        if len(instruments) > 1:
            reason = f"read by different instruments: {', '.join(instruments)}"
            return row._replace(verdict=INCOMPARABLE, reason=reason)
        comparison = verdicts.compare_memory(pair.base, pair.change, quantity)
        missing = "there are no peaks of both"
    elif quantity.name == TIME.name:
        comparison = verdicts.compare_times(pair.base, pair.change, blocks, quantity)
    else:
        comparison = compare_first_steps(pair, quantity)
        missing = FEW_FIRST_STEPS
    if comparison is None:
        return row._replace(reason=missing)
    if comparison.low is None:
        reason = FEW_FIRST_STEPS if quantity.name == FIRST.name else NO_INTERVAL
        return fill_in(row._replace(verdict=FEW, reason=reason), comparison)
    verdict = {quantity.more: REGRESSION, quantity.less: IMPROVEMENT}.get(
        comparison.verdict, comparison.verdict
    )
    return fill_in(row._replace(verdict=verdict), comparison)


def list_instruments(pair: CaseRecords) -> list[str]:
    """Return the instruments that read the newest peaks of the two versions."""
    instruments = set()
    for records in (pair.base, pair.change):
        instrument = verdicts.find_newest_peaks([record for record in records if record.peaks])[0]
        if instrument:
            instruments.add(instrument)
    return sorted(instruments)


def compare_first_steps(pair: CaseRecords, quantity: Quantity) -> Verdict | None:
    """Compare the first steps of the processes of each block, which compile one after the other."""
    base_times, change_times, log_ratios = [], [], []
    for base, change in match_blocks(pair.base, pair.change):
        if base.first_step_s and change.first_step_s:
            base_times.append(base.first_step_s)
            change_times.append(change.first_step_s)
            log_ratios.append(math.log(change.first_step_s / base.first_step_s))
    if not log_ratios:
        return None
    ratio = compare_blocks(log_ratios)
    return verdicts.make_verdict(
        quantity, ratio, geometric_mean(base_times), geometric_mean(change_times)
    )


def fill_in(row: QuantityComparison, comparison: Verdict) -> QuantityComparison:
    """Return a row with the numbers of a comparison."""
    return row._replace(
        base_value=comparison.base,
        change_value=comparison.change,
        ratio=comparison.ratio,
        low=comparison.low,
        high=comparison.high,
        p=comparison.p,
        blocks=comparison.blocks,
        instrument=comparison.instrument,
    )


def collect_conditions(pair: CaseRecords) -> VersionConditions:
    """Return under which conditions the records of a case were made."""
    origins = [record.provenance for record in (*pair.base, *pair.change)]
    days = sorted(origin.measured_at.date().isoformat() for origin in origins)
    loads = []
    for origin in origins:
        loads += [load for load in (origin.load_before, origin.load_after) if load is not None]
    framework, _ = release_of(pair.base[-1])
    base_packages = pair.base[-1].provenance.versions
    change_packages = pair.change[-1].provenance.versions
    return VersionConditions(
        cpu=str(origins[0].hardware.get("cpu", "unknown")),
        device=str(origins[0].hardware.get("device", "unknown")),
        threads=origins[0].threads,
        commits=tuple(sorted({origin.commit or "unknown" for origin in origins})),
        first=days[0],
        last=days[-1],
        load=(min(loads), max(loads)) if loads else None,
        packages=tuple(list_package_changes(base_packages, change_packages, framework)),
    )


def list_package_changes(old: dict[str, str], new: dict[str, str], framework: str) -> Iterator[str]:
    """Yield the packages that changed with the framework, and the build that its own label names
    (`2.13.0+cpu`).
    """
    for name in sorted((old.keys() & new.keys()) - {framework}):
        if old[name] != new[name]:
            yield f"{name} {old[name]} and {new[name]}"
    labels = [versions.get(framework, "").partition("+")[2] or "none" for versions in (old, new)]
    if labels[0] != labels[1]:
        yield f"{framework}'s build, {' and '.join(labels)}"


def release_of(record: Record) -> tuple[str, str | None]:
    """Return framework and version; the version is unknown where a process ended before it reported
    one.
    """
    return record.case.split("/")[1], record.framework_version


def sort_versions(versions: Iterable[str | None]) -> list[str]:
    """Return each version once, oldest first; what is no version by the common rules is left
    out.
    """
    parsed_versions = set()
    for version in versions:
        try:
            parsed_versions.add((Version(version or ""), version))
        except InvalidVersion:
            continue
    return [version for _, version in sorted(parsed_versions) if version]


def compare_successive(records: Iterable[Record]) -> Iterator[list[QuantityComparison]]:
    """Yield the rows of each version and the one before it, by machine and framework."""
    by_machine: dict[str, list[Record]] = {}
    releases: dict[tuple[str, str], set[str | None]] = {}  # by machine and framework
    for record in records:
        machine = record.provenance.machine
        by_machine.setdefault(machine, []).append(record)
        if record.status != "unsupported":
            framework, version = release_of(record)
            releases.setdefault((machine, framework), set()).add(version)
    for machine, framework in sorted(releases):
        for old, new in pairwise(sort_versions(releases[machine, framework])):
            rows = compare_versions(
                by_machine[machine], f"{framework}=={old}", f"{framework}=={new}"
            )
            if rows:
                yield rows
