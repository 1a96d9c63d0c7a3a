"""Select the records that count, by case, protocol and version of a framework.

Records that were made under a limit of memory are in no table, since they do not show what a case
needs. Numbers of two protocols are never compared: only the records of a machine's newest protocol
with numbers count. `select_current` drops the others, and every comparison of records starts from
its result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from framebench.records.pins import find_pinned_version
from framebench.records.record import Record, get_measurement_time
from framebench.suite.sequences import group_by


def select_current(all_records: Iterable[Record]) -> list[Record]:
    """Return the records that may be compared.

    These records were made without a limit of memory, with nothing planted, and under the newest
    protocol of their machine: the newest that has an ok record, if any has one.
    """
    unrestricted = [record for record in all_records if is_unrestricted(record)]
    newest: dict[str, tuple[bool, int]] = {}  # by machine
    for record in unrestricted:
        origin = record.provenance
        # protocols with numbers rank above all others, and among them the newest
        rank = (record.status == "ok", origin.protocol)
        newest[origin.machine] = max(newest.get(origin.machine, rank), rank)
    current = []
    for record in unrestricted:
        _, newest_protocol = newest[record.provenance.machine]
        if record.provenance.protocol == newest_protocol:
            current.append(record)
    return current


def is_unrestricted(record: Record) -> bool:
    """Return whether a record was made without a limit of memory, and with nothing planted."""
    return record.provenance.memory_limit is None and not record.provenance.planted


def select_records(all_records: Iterable[Record]) -> list[Record]:
    """Return the records that `framebench.load` shows: of one version of each framework."""
    return select_one_version(select_current(all_records))


def select_single(records: Iterable[Record]) -> list[Record]:
    """Return the records of cases in one process; those over ranks have tables of their own."""
    return [record for record in records if record.parsed.ranks == 1]


class Measured(NamedTuple):
    """The records that count for one case in one version of its framework, on one machine."""

    newest: Record  # its status is that of the case
    record: Record  # has the peaks: the newest with any, or else the newest
    peaked: tuple[Record, ...]  # comparable with the peaks of `record`, oldest first
    timed: tuple[Record, ...]  # of every block, oldest first; empty if the newest has no numbers


def select_cases(all_records: Iterable[Record]) -> list[Measured]:
    """Return the records that count for each machine, case and framework version, sorted by these.

    A record of a process that died before it could name its version counts for the only version of
    the case, if there is only one.
    """
    records = select_current(all_records)
    versions_by_case: dict[tuple[str, str], set[str]] = defaultdict(set)  # by machine and case
    for record in records:
        if record.framework_version:
            place = (record.provenance.machine, record.case)
            versions_by_case[place].add(record.framework_version)

    def identify(record: Record) -> tuple[str, str, str]:
        place = (record.provenance.machine, record.case)
        version = record.framework_version
        if not version:
            versions = versions_by_case[place]
            version = min(versions) if len(versions) == 1 else ""
        return (*place, version)

    groups = group_by(records, identify)
    return [select_case(groups[key]) for key in sorted(groups)]


def select_case(case_records: list[Record]) -> Measured:
    """Return the records of a case that count.

    If the newest record failed, no record has numbers. Otherwise peaks are those of the newest ok
    record that has any, and times those of every ok record that was timed. How far peaks of several
    sessions lie apart is told by the usable records that the same instrument read.
    """
    ordered = sorted(case_records, key=get_measurement_time)
    # a case that no longer runs has no numbers, whatever it once had
    newest = ordered[-1]
    if newest.status != "ok":
        return Measured(newest, record=newest, peaked=(), timed=())
    with_peaks = newest
    timed = []
    for record in ordered:
        if record.status != "ok":
            continue
        if record.peaks:
            with_peaks = record
        if record.timed:
            timed.append(record)
    peaked = select_comparable_peaks(ordered, with_peaks) if newest.usable else ()
    return Measured(newest, record=with_peaks, peaked=peaked, timed=tuple(timed))


def select_comparable_peaks(case_records: Sequence[Record], record: Record) -> tuple[Record, ...]:
    """Return the usable records of a case whose peaks were read as that of `record` was.

    They have the same instrument, device and number of threads. There are none if `record` is not
    usable itself.
    """
    reading = describe_reading(record)
    if record.step_instrument is None or not record.usable:
        return ()
    return tuple(
        other for other in case_records if other.usable and describe_reading(other) == reading
    )


def describe_reading(record: Record) -> tuple[str | None, str | None, int | None]:
    """Return what the peaks of one case must have in common to be compared."""
    return record.step_instrument, record.device, record.provenance.threads


def select_one_version(records: Iterable[Record]) -> list[Record]:
    """Return the records of one version of each framework and machine, by age.

    The version is the pinned one, or else the one measured last. A record of a process that died
    before it could name its version counts, too, until its case is measured again.
    """
    ordered = sorted(records, key=get_measurement_time)
    newest: dict[tuple[str, str], Record] = {}  # by machine and case
    versions: dict[tuple[str, str], str] = {}  # by machine and framework
    for record in ordered:
        machine, framework = record.provenance.machine, record.parsed.framework
        newest[machine, record.case] = record
        # a later version replaces any but the pinned one
        is_pinned = versions.get((machine, framework)) == find_pinned_version(framework)
        if record.framework_version and not is_pinned:
            versions[machine, framework] = record.framework_version
    selected = []
    for record in ordered:
        machine, framework = record.provenance.machine, record.parsed.framework
        if record.framework_version:
            counts = record.framework_version == versions[machine, framework]
        else:
            counts = record is newest[machine, record.case]
        if counts:
            selected.append(record)
    return selected
