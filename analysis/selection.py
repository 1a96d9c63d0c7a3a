"""Which records count: which one of a case, which version of a framework, which protocol, which belong to one experiment, and
which times may be compared. Nothing else decides this.

Records made under a limit of memory are in no table (`unlimited`): what a case does under a limit is not what it needs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from framebench.records.pins import pinned_version
from framebench.records.record import Record
from framebench.records.rounds import Round

HOUR_S = 3600.0


def unlimited(found: Iterable[Record]) -> list[Record]:
    return [r for r in found if r.provenance.memory_limit is None]


def measured_at(r: Record) -> datetime:
    return r.provenance.measured_at


def select(found: Iterable[Record]) -> list[Record]:
    """One record for each machine and case, of one version of each framework and one protocol: what `analysis.load` shows."""
    return of_one_protocol(select_cases(found))


def select_records(found: Iterable[Record]) -> list[Record]:
    """One for each machine, case and framework version (`select_record`), sorted by these."""
    return one_of_each(unlimited(found), lambda r: (r.provenance.machine, r.case, r.framework_version or ""))


def select_cases(found: Iterable[Record]) -> list[Record]:
    """One for each machine and case (`select_record`), of one version of each framework (`of_one_version`)."""
    return one_of_each(of_one_version(unlimited(found)), lambda r: (r.provenance.machine, r.case))


def one_of_each(found: Iterable[Record], key: Callable[[Record], tuple[str, ...]]) -> list[Record]:
    every: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for r in found:
        every[key(r)].append(r)
    return [select_record(every[of]) for of in sorted(every)]


def select_record(found: list[Record]) -> Record:
    """Of one case's records the newest, if it has no numbers; else the newest of the `uncontended` ones of its protocol."""
    last = max(found, key=measured_at)
    if last.status != "ok":
        return last
    return max(uncontended(r for r in found if r.provenance.protocol == last.provenance.protocol), key=measured_at)


def uncontended(found: Iterable[Record]) -> list[Record]:
    """Of one case's ok records those that are not contended, or all of them, if all are. Of these the ones that were measured
    alone, if there are some: the others are rounds of a comparison, to be paired with their neighbours."""
    good = [r for r in found if r.status == "ok"]
    of_session = Counter(r.provenance.session for r in good)
    calm = [r for r in good if not r.contended] or good
    return [r for r in calm if of_session[r.provenance.session] == 1] or calm


def select_repeats(found: Iterable[Record]) -> list[Record]:
    """Of one case's records the processes of one experiment, oldest first: of the `uncontended` ones those that were taken at
    the newest's commit and within the hour before it. Older code, or another time, is another experiment."""
    good = sorted(uncontended(unlimited(found)), key=measured_at)
    return [
        r
        for r in good
        if r.provenance.commit == good[-1].provenance.commit and comparable_times(measured_at(r), measured_at(good[-1]))
    ]


def comparable_times(*taken: datetime, device: str | None = "cpu") -> bool:
    """Whether step times that were taken at these moments may have a ratio: on a processor, which others share, they drift, so
    that only those of one hour may (docs/study.md)."""
    return device != "cpu" or (max(taken) - min(taken)).total_seconds() <= HOUR_S


def select_version(framework: str, measured: Mapping[str, datetime]) -> str:
    """Which version of a framework counts, from when each was measured last: the pinned one, or without records of it the one
    measured last."""
    pinned = pinned_version(framework)
    return pinned if pinned in measured else max(measured, key=lambda version: measured[version])


def of_one_version(found: Iterable[Record]) -> list[Record]:
    """Those of one version of each framework and machine (`select_version`). A process that died before it could name its
    version counts as one of it, until its case was measured again."""
    every = sorted(found, key=measured_at)
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


def of_one_protocol(found: Iterable[Record]) -> list[Record]:
    """Those of the newest protocol of each machine: numbers of two protocols are not comparable."""
    kept = list(found)
    newest: dict[str, int] = defaultdict(int)
    for r in kept:
        newest[r.provenance.machine] = max(newest[r.provenance.machine], r.provenance.protocol)
    return [r for r in kept if r.provenance.protocol == newest[r.provenance.machine]]


def select_rounds(base: Iterable[Record], change: Iterable[Record]) -> list[Round]:
    """The rounds of a comparison, from the records of one case in two versions: the i-th of one with the i-th of the other, of
    the same session. Records of separate runs differ by whatever the machine did in between (docs/study.md).

    Only those made by the code, and under the conditions, of the newest: what we changed in between is no regression of theirs.
    """
    by_session = [defaultdict[str, list[Record]](list) for _ in range(2)]
    for arm, found in zip(by_session, (base, change)):
        for r in sorted(found, key=measured_at):
            arm[r.provenance.session].append(r)
    first, second = by_session
    rounds = [Round(*pair) for session in first for pair in zip(first[session], second.get(session, []))]
    newest = max(rounds, key=lambda r: measured_at(r.base), default=None)
    return [r for r in rounds if newest and setting(r.base) == setting(newest.base)]


def setting(record: Record) -> tuple[object, ...]:
    """What must not differ between the rounds of a comparison."""
    proof = record.provenance
    return proof.commit, proof.dirty, proof.protocol, proof.threads, proof.hardware.get("cpu"), proof.hardware.get("device")
