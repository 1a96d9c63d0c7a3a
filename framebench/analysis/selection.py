"""Which records count: which of a case, under which protocol, of which version of a framework.

Nothing else decides this.

Records made under a limit of memory are in no table: what a case does under a limit is not what it
needs. Numbers of two protocols are never compared: of a machine only records of the newest protocol
that has given it numbers count. `counting` leaves the others out, and whatever compares records
starts from what it leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from framebench.records.pins import find_pinned_version
from framebench.records.record import Record


def select_current(all_records: Iterable[Record]) -> list[Record]:
    """Return the records that count.

    They were made without a limit of memory, with nothing planted, and under the newest protocol of
    their machine: of those with an ok record, if any has one, since what has no numbers hides none.
    """
    free = [
        r for r in all_records if r.provenance.memory_limit is None and not r.provenance.planted
    ]
    newest: dict[str, tuple[bool, int]] = {}
    for record in free:
        machine = record.provenance.machine
        standing = (record.status == "ok", record.provenance.protocol)
        newest[machine] = max(newest.get(machine, standing), standing)
    protocols = {machine: protocol for machine, (_, protocol) in newest.items()}
    return [r for r in free if r.provenance.protocol == protocols[r.provenance.machine]]


def get_measurement_time(record: Record) -> datetime:
    """Return when a record was made."""
    return record.provenance.measured_at


def select_records(all_records: Iterable[Record]) -> list[Record]:
    """Return the records of one version of each framework on each machine: what `framebench.load`
    shows.
    """
    return select_one_version(select_current(all_records))


class Measured(NamedTuple):
    """What counts of one case in one version of its framework, on one machine."""

    newest: Record  # its status is the case's
    read: Record  # the newest with peaks, or the newest
    # of every block, oldest first; none where there are no numbers, or times that do not count
    timed: tuple[Record, ...]


def select_cases(all_records: Iterable[Record]) -> list[Measured]:
    """Return what counts of each machine, case and framework version, sorted by these.

    A process that died before it could name its version is of the only one there is.
    """
    records = select_current(all_records)
    versions: dict[tuple[str, str], set[str]] = defaultdict(set)
    for record in records:
        if record.framework_version:
            versions[record.provenance.machine, record.case].add(record.framework_version)
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        machine = record.provenance.machine
        version = record.framework_version or ""
        known = versions[machine, record.case]
        if not version and len(known) == 1:
            (version,) = known
        groups[machine, record.case, version].append(record)
    return [select_case(groups[key]) for key in sorted(groups)]


def select_case(case_records: list[Record]) -> Measured:
    """Return what counts of one case's records, which all count: the newest decides whether there
    are numbers.
    """
    ordered = sorted(case_records, key=get_measurement_time)
    newest = ordered[-1]
    if newest.status != "ok":
        return Measured(newest, newest, ())
    good = [record for record in ordered if record.status == "ok"]
    with_peaks = [record for record in good if record.peaks]
    read = with_peaks[-1] if with_peaks else newest
    return Measured(newest, read, tuple(record for record in good if record.timed))


def select_version(framework: str, measured: Mapping[str, datetime]) -> str:
    """Return the version of a framework that counts, from when each was measured last.

    It is the pinned one, or without records of it the one measured last.
    """
    pinned = find_pinned_version(framework)
    return pinned if pinned in measured else max(measured, key=lambda version: measured[version])


def select_one_version(records: Iterable[Record]) -> list[Record]:
    """Return the records of one version of each framework and machine (`select_version`).

    A process that died before it could name its version counts as one of it, until its case was
    measured again.
    """
    ordered = sorted(records, key=get_measurement_time)
    measured: dict[tuple[str, str], dict[str, datetime]] = defaultdict(dict)
    newest: dict[tuple[str, str], Record] = {}
    for record in ordered:
        machine = record.provenance.machine
        newest[machine, record.case] = record
        if record.framework_version is not None:
            measured[machine, record.parsed.framework][record.framework_version] = (
                get_measurement_time(record)
            )
    versions = {}
    for (machine, framework), times in measured.items():
        versions[machine, framework] = select_version(framework, times)

    def counts(record: Record) -> bool:
        machine = record.provenance.machine
        if record.framework_version is None:
            return record is newest[machine, record.case]
        return record.framework_version == versions[machine, record.parsed.framework]

    return [record for record in ordered if counts(record)]
