"""Which records count: which of a case, under which protocol, of which version of a framework. Nothing else decides this.

Records made under a limit of memory are in no table: what a case does under a limit is not what it needs. Numbers of two
protocols are never compared: of a machine only records of the newest protocol that has given it numbers count. `counting`
leaves the others out, and whatever compares records starts from what it leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from framebench.records.pins import pinned_version
from framebench.records.record import Record


def counting(all_records: Iterable[Record]) -> list[Record]:
    """Those that were made under no limit of memory, with nothing planted, and under the newest protocol of their machine: of
    those with an ok record, if any has one, since what has no numbers hides none."""
    free = [r for r in all_records if r.provenance.memory_limit is None and not r.provenance.planted]
    newest: dict[str, tuple[bool, int]] = {}
    for r in free:
        machine, standing = r.provenance.machine, (r.status == "ok", r.provenance.protocol)
        newest[machine] = max(newest.get(machine, standing), standing)
    return [r for r in free if r.provenance.protocol == newest[r.provenance.machine][1]]


def measured_at(r: Record) -> datetime:
    return r.provenance.measured_at


def select(all_records: Iterable[Record]) -> list[Record]:
    """The records of one version of each framework on each machine: what `framebench.load` shows."""
    return of_one_version(counting(all_records))


class Measured(NamedTuple):
    """What counts of one case in one version of its framework, on one machine."""

    newest: Record  # its status is the case's
    read: Record  # the newest with peaks, or the newest
    timed: tuple[Record, ...]  # of every block, oldest first; none where there are no numbers, or times that do not count


def select_cases(all_records: Iterable[Record]) -> list[Measured]:
    """One for each machine, case and framework version, sorted by these. A process that died before it could name its version
    is of the only one there is."""
    kept = counting(all_records)
    versions: dict[tuple[str, str], set[str]] = defaultdict(set)
    for r in kept:
        versions[r.provenance.machine, r.case] |= {r.framework_version} if r.framework_version else set()
    every: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for r in kept:
        case_versions = versions[r.provenance.machine, r.case]
        version = r.framework_version or ("" if len(case_versions) != 1 else next(iter(case_versions)))
        every[r.provenance.machine, r.case, version].append(r)
    return [select_case(every[key]) for key in sorted(every)]


def select_case(case_records: list[Record]) -> Measured:
    """Of one case's records, which all count: the newest decides whether there are numbers."""
    ordered = sorted(case_records, key=measured_at)
    last = ordered[-1]
    if last.status != "ok":
        return Measured(last, last, ())
    good = [r for r in ordered if r.status == "ok"]
    read = next((r for r in reversed(good) if r.peaks), last)
    return Measured(last, read, tuple(r for r in good if r.timed))


def select_version(framework: str, measured: Mapping[str, datetime]) -> str:
    """Which version of a framework counts, from when each was measured last: the pinned one, or without records of it the one
    measured last."""
    pinned = pinned_version(framework)
    return pinned if pinned in measured else max(measured, key=lambda version: measured[version])


def of_one_version(records: Iterable[Record]) -> list[Record]:
    """Those of one version of each framework and machine (`select_version`). A process that died before it could name its
    version counts as one of it, until its case was measured again."""
    every = sorted(records, key=measured_at)
    measured: dict[tuple[str, str], dict[str, datetime]] = defaultdict(dict)
    for r in every:
        if r.framework_version is not None:
            measured[r.provenance.machine, r.parsed.framework][r.framework_version] = measured_at(r)
    versions = {place: select_version(place[1], of_place) for place, of_place in measured.items()}
    newest = {(r.provenance.machine, r.case): r for r in every}

    def counts(r: Record) -> bool:
        if r.framework_version is None:
            return r is newest[r.provenance.machine, r.case]
        return r.framework_version == versions[r.provenance.machine, r.parsed.framework]

    return [r for r in every if counts(r)]
