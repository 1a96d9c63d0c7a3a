"""Judge from records whether an upgrade of the framework has cost memory or time.

`framebench versions run` measures the versions in blocks. The rule is that of every other ratio
(`framebench.analysis.statistics`), and the p of all times on one page are corrected for their
number (Holm). Where two versions share fewer than three blocks the verdict on times is `too few`,
however far two numbers lie apart.

Throughput has no verdict of its own: it is work / step time, and a rule by which less is better
would take its growth for a regression.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from statistics import geometric_mean
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version

from framebench.analysis.blocks import Blocks, match_blocks
from framebench.analysis.reports import verdicts
from framebench.analysis.reports.verdicts import INSTRUCTIONS, SAME_WORK, Verdict
from framebench.analysis.selection import select_current
from framebench.analysis.statistics import (
    CONFIDENCE,
    FEWEST_BLOCKS,
    NO_INTERVAL,
    NONE,
    PEAK,
    TIME,
    UNDECIDED,
    Quantity,
    Ratio,
    compare_blocks,
    correct_by_holm,
    decide,
)
from framebench.records.pins import find_pinned_version
from framebench.records.record import Record, get_measurement_time
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.sequences import group_by

REGRESSION, IMPROVEMENT, TOO_FEW = "regression", "improvement", "too few"
INCOMPARABLE, OTHER_WORK = "not comparable", INSTRUCTIONS.more
# in the order of a table
VERDICTS = (REGRESSION, IMPROVEMENT, OTHER_WORK, INCOMPARABLE, NONE, SAME_WORK, UNDECIDED, TOO_FEW)
# mostly compilation, which scatters more than steps do
FIRST_STEP = Quantity("first step", "s", minimum=0.10, more="slower", less="faster")
QUANTITIES = (PEAK, TIME, FIRST_STEP)  # less is better for each
STATUS = "status"  # the quantity of a row about a case that did not run to its end in some process
NO_SHARED_BLOCK = "no timed block has both releases"
# a first step counts if it compiles everything
FEW_FIRST_STEPS = f"fewer than {FEWEST_BLOCKS} blocks have first steps with fresh caches"
# by quantity, why a case has no ratio
NO_RATIO_REASONS = {
    PEAK.name: "there are no peaks of both",
    TIME.name: NO_SHARED_BLOCK,
    FIRST_STEP.name: FEW_FIRST_STEPS,
}
# reasons that a table counts with the rows it hides, and does not repeat for each row
COUNTED_REASONS = (NO_SHARED_BLOCK, NO_INTERVAL, FEW_FIRST_STEPS)


class UnknownVersion(ValueError):
    """A version without records; the message lists the versions that have records."""


class ReleaseNotMeasured(UnknownVersion):
    """A release that has to be measured first; the message ends with the command for that."""


class CaseRecords(NamedTuple):
    """The records of one case on one machine in two versions, in the order of measurement."""

    base: list[Record]
    change: list[Record]


class QuantityComparison(NamedTuple):
    """One quantity of one case in two versions, in seconds or bytes.

    Values are those of `verdicts.Verdict`; None if there is no such number. `ratio` is change /
    base: above 1 is worse for every quantity but instructions. It is a named tuple, since pandas
    makes columns of its fields and does not take `records` apart.
    """

    machine: str
    case: str
    base: str  # jax==0.9.2
    change: str
    records: CaseRecords
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
    verdict: str = TOO_FEW  # one of VERDICTS
    reason: str | None = None  # why there is no better verdict

    def as_dict(self) -> dict[str, Any]:
        """Return the row for programs."""
        fields = self._asdict()
        del fields["records"]
        return fields


def parse_release(text: str) -> tuple[str, str]:
    """Return framework and version of `jax==0.9.2`. Raises UnknownVersion."""
    framework, _, version = text.partition("==")
    if framework not in FRAMEWORKS or not version:
        choices = ", ".join(FRAMEWORKS)
        raise UnknownVersion(
            f"{text!r} is no version; write framework==version, such as jax==0.9.2, with a "
            f"framework of {choices}"
        )
    try:
        Version(version)
    except InvalidVersion:
        raise UnknownVersion(
            f"{version!r} is no version; write a number, such as {framework}=="
            f"{find_pinned_version(framework)}"
        ) from None
    return framework, version


def parse_pair(base: str, change: str) -> tuple[str, str, str]:
    """Return the framework and both versions of two releases. Raises UnknownVersion."""
    framework, old = parse_release(base)
    change_framework, new = parse_release(change)
    if framework != change_framework or old == new:
        raise UnknownVersion(f"{base} and {change} are not two versions of one framework")
    return framework, old, new


def make_release_blocks(records: Iterable[Record]) -> Blocks:
    """Return the blocks from which the spread between blocks of a machine is estimated."""
    return Blocks(select_usable(records))


def select_usable(records: Iterable[Record]) -> list[Record]:
    """Return the records that count in a comparison of releases.

    Unsupported cases do not: what a release does not have cannot have regressed.
    """
    return [record for record in select_current(records) if record.status != "unsupported"]


def compare_versions(
    records: Iterable[Record],
    base: str,
    change: str,
    threshold: float | None = None,
    machine_blocks: Blocks | None = None,
) -> list[QuantityComparison]:
    """Compare each quantity of each case that both versions have records of.

    Versions are written as `jax==0.9.2`. The rows are sorted by machine and case. `threshold`
    replaces the quantities' own minimum effects (memory 1 %, step time 3 %, first step 10 %).
    `machine_blocks` are all blocks of the machine where `records` are of some cases only, so that
    an interval does not depend on the other rows. Raises UnknownVersion for a version without
    records, and for versions of two frameworks.
    """
    parse_pair(base, change)
    usable = select_usable(records)
    hint = suggest_run(base, change)
    base_records = select_version(usable, base, hint)
    change_records = select_version(usable, change, hint)
    blocks = machine_blocks or Blocks(usable)
    rows = []
    for key in sorted(base_records.keys() & change_records.keys()):
        pair = CaseRecords(base_records[key], change_records[key])
        rows += compare_case(QuantityComparison(*key, base, change, pair), blocks, threshold)
    # before p decides, it is corrected for the number of tests on the page
    uncorrected = [row.p for row in rows if row.p is not None]
    corrected = iter(correct_by_holm(uncorrected))
    decided = []
    for row in rows:
        if row.p is not None:
            row = row._replace(p=next(corrected))
        decided.append(decide_row(row))
    return decided


def decide_row(row: QuantityComparison) -> QuantityComparison:
    """Return a row with its verdict by the interval and p, where it has an interval."""
    if row.ratio is None or row.low is None:
        return row
    quantity = Quantity(
        row.quantity, row.unit, minimum=row.minimum or 0.0, more=REGRESSION, less=IMPROVEMENT
    )
    return row._replace(verdict=decide(Ratio(row.ratio, row.low, row.high, row.p), quantity))


def judge_growth(base: int, change: int, minimum: float) -> str:
    """Return the verdict on two exact numbers: a change up to the share `minimum` is NONE."""
    growth = change / base - 1
    if abs(growth) <= minimum:
        return NONE
    return REGRESSION if growth > 0 else IMPROVEMENT


def select_version(
    records: Sequence[Record], version: str, hint: str
) -> dict[tuple[str, str], list[Record]]:
    """Return the records of one version (`jax==0.9.2`) by machine and case, oldest first.

    Raises ReleaseNotMeasured, whose message ends with the hint, if no record is of the version.
    """
    selected = defaultdict(list)
    for record in sorted(records, key=get_measurement_time):
        if name_release(record) == version:
            selected[record.provenance.machine, record.case].append(record)
    if not selected:
        releases = sorted({name_release(record) for record in records})
        machines = sorted({record.provenance.machine for record in records})
        raise ReleaseNotMeasured(
            f"no records of {version} (machine {', '.join(machines) or 'none'}); there are: "
            f"{', '.join(releases) or 'none'}; {hint}"
        )
    return selected


def name_release(record: Record) -> str:
    """Return the release that a record is of, such as `jax==0.9.2`."""
    return f"{record.parsed.framework}=={record.framework_version}"


def has_both(records: Iterable[Record], base: str, change: str) -> bool:
    """Return whether there are records of both releases."""
    return {base, change} <= {name_release(record) for record in records}


def explain_no_machine(
    records: Iterable[Record], base: str, change: str, other_way: str
) -> ReleaseNotMeasured:
    """Return the error that no machine has measured both releases, with the machines of each.

    `other_way` is a clause that stands before the command that measures them, or "".
    """
    machines_by_release: dict[str, set[str]] = {base: set(), change: set()}
    for record in records:
        release = name_release(record)
        if release in machines_by_release:
            machines_by_release[release].add(record.provenance.machine)
    clauses = []
    for release, machines in machines_by_release.items():
        clauses.append(f"{release} by {', '.join(sorted(machines)) or 'none'}")
    command = suggest_run(base, change)
    return ReleaseNotMeasured(
        f"no machine has measured both: {', '.join(clauses)}; {other_way}{command}"
    )


def suggest_run(base: str, change: str) -> str:
    """Return the command that measures both releases in turn."""
    framework, old, new = parse_pair(base, change)
    return f"framebench versions run --framework {framework} --version {old} --version {new}"


def suggest_bisect(base: str, change: str, case: str) -> str:
    """Return the command that finds the first release in which a case's peak changed."""
    framework, old, new = parse_pair(base, change)
    return f"framebench versions bisect --framework {framework} {old} {new} {case}"


def compare_case(
    blank: QuantityComparison, blocks: Blocks, threshold: float | None
) -> list[QuantityComparison]:
    """Return a row for each quantity of one case.

    A verdict that depends on an interval is added later, by `decide_row`.

    Args:
        blank: A comparison with only case, versions and records, from which the rows are made.
        blocks: The blocks in which both versions were measured.
        threshold: The smallest change that matters, or None for each quantity's own.
    """
    base = select_ok(blank.records.base)
    change = select_ok(blank.records.change)
    rows = []
    some_failed = (base, change) != blank.records
    if some_failed:
        rows.append(compare_statuses(blank))
    if not base or not change:
        return rows
    comparisons = verdicts.compare(base, change, blocks)
    first_step = compare_first_steps(base, change)
    if first_step:
        comparisons.append(first_step)
    by_quantity = {comparison.quantity: comparison for comparison in comparisons}
    for quantity in QUANTITIES:
        minimum = quantity.minimum if threshold is None else threshold
        row = blank._replace(quantity=quantity.name, unit=quantity.unit, minimum=minimum)
        if quantity.name in by_quantity:
            rows.append(add_numbers_or_reason(row, quantity, by_quantity[quantity.name]))
        else:
            rows.append(explain_missing(row, base + change))
    # none of QUANTITIES: shown only where the processor counts them, with their own threshold and
    # verdict
    if INSTRUCTIONS.name in by_quantity:
        work = by_quantity[INSTRUCTIONS.name]
        row = blank._replace(
            quantity=work.quantity, minimum=INSTRUCTIONS.minimum, verdict=work.verdict
        )
        rows.append(add_numbers(row, work))
    return rows


def select_ok(records: Iterable[Record]) -> list[Record]:
    """Return the records of processes that ran to their end."""
    return [record for record in records if record.status == "ok"]


def add_numbers_or_reason(
    row: QuantityComparison, quantity: Quantity, comparison: Verdict
) -> QuantityComparison:
    """Return a row with the numbers of a comparison, and without an interval the reason."""
    row = add_numbers(row, comparison)
    if row.low is not None:
        return row
    if quantity is TIME:
        return row._replace(reason=NO_INTERVAL)
    return row._replace(reason=NO_RATIO_REASONS[quantity.name])


def explain_missing(row: QuantityComparison, records: Sequence[Record]) -> QuantityComparison:
    """Return a row without numbers, with the reason why the two releases cannot be compared.

    `records` are those of both releases.
    """
    instruments = {str(record.peak_instrument) for record in records if record.peaks}
    if row.quantity == PEAK.name and len(instruments) > 1:
        reason = f"read by different instruments: {', '.join(sorted(instruments))}"
        return row._replace(verdict=INCOMPARABLE, reason=reason)
    return row._replace(reason=NO_RATIO_REASONS[row.quantity])


def compare_statuses(blank: QuantityComparison) -> QuantityComparison:
    """Compare how often a case failed, by Fisher's exact test (1922).

    At least one process must have failed. With equal counts the test needs four processes of each
    release to decide; where one release has more processes, fewer of the other can be enough.
    """
    from scipy import stats  # takes a second to import, and few tables have failures

    base, change = blank.records
    failed = [record for record in (*base, *change) if record.status != "ok"]
    # each process is a draw: it ran to its end, or did not
    base_succeeded = len(select_ok(base))
    change_succeeded = len(select_ok(change))
    base_failed = len(base) - base_succeeded
    change_failed = len(change) - change_succeeded
    counts = [(base_failed, base_succeeded), (change_failed, change_succeeded)]
    p = stats.fisher_exact(counts).pvalue
    verdict = IMPROVEMENT
    if not base_succeeded and not change_succeeded:
        verdict = NONE
    elif p > 1 - CONFIDENCE:
        verdict = UNDECIDED
    elif change_failed * base_succeeded > base_failed * change_succeeded:
        verdict = REGRESSION
    base_text = f"{base_failed} of {len(base)} processes of the base"
    change_text = f"{change_failed} of {len(change)} of the change"
    return blank._replace(
        quantity=STATUS,
        blocks=min(len(base), len(change)),
        verdict=verdict,
        reason=f"failed in {base_text} and {change_text}: {failed[-1].status}: {failed[-1].reason}",
    )


def compare_first_steps(base: Sequence[Record], change: Sequence[Record]) -> Verdict | None:
    """Compare the seconds of first steps within blocks, or return None if no block has both.

    The processes of a block compile one after the other.
    """
    base_times, change_times, log_ratios = [], [], []
    for base_record, change_record in match_blocks(base, change):
        base_time, change_time = base_record.first_step_s, change_record.first_step_s
        # later blocks find everything compiled, and have none
        if base_time and change_time:
            base_times.append(base_time)
            change_times.append(change_time)
            log_ratios.append(math.log(change_time / base_time))
    if not log_ratios:
        return None
    ratio = compare_blocks(log_ratios)
    return verdicts.make_verdict(
        FIRST_STEP, ratio, geometric_mean(base_times), geometric_mean(change_times)
    )


def add_numbers(row: QuantityComparison, comparison: Verdict) -> QuantityComparison:
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


def list_releases(records: Iterable[Record]) -> dict[str, list[str]]:
    """Return the releases of each framework that the records are of, oldest first.

    What is no version by the rules of `packaging` is left out.
    """
    releases: defaultdict[str, set[str]] = defaultdict(set)
    for record in records:
        version = record.framework_version or ""
        if record.status != "unsupported":
            with suppress(InvalidVersion):
                Version(version)
                releases[record.parsed.framework].add(version)
    return {name: sorted(releases[name], key=Version) for name in sorted(releases)}


def has_successive(records: Iterable[Record]) -> bool:
    """Return whether the records are of two releases of a framework."""
    return any(len(versions) > 1 for versions in list_releases(records).values())


def compare_successive(
    records: Iterable[Record], machine_blocks: Blocks | None = None
) -> Iterator[list[QuantityComparison]]:
    """Yield the rows of each version and the one before it, by machine and framework.

    `machine_blocks` are those of `compare_versions`.
    """
    by_machine = group_by(records, lambda record: record.provenance.machine)
    for machine in sorted(by_machine):
        for framework, versions in list_releases(by_machine[machine]).items():
            for old, new in pairwise(versions):
                rows = compare_versions(
                    by_machine[machine],
                    f"{framework}=={old}",
                    f"{framework}=={new}",
                    machine_blocks=machine_blocks,
                )
                if rows:
                    yield rows
