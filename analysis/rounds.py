"""Which records of several framework versions belong together: those that one session measured in turn.

Records of separate runs differ by whatever the machine did in between (by 7 % in the median, docs/study.md), so that only
records of one session are set against each other, the i-th of one version against the i-th of the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from framebench.measure.compare import Round
from framebench.records.record import Record

Key = tuple[str, str]  # machine and case


def release(record: Record) -> tuple[str, str | None]:
    """Framework and version; the version is unknown where a process ended before it could tell."""
    return record.case.split("/")[1], record.framework_version


def grouped(found: Iterable[Record]) -> dict[Key, list[Record]]:
    """By machine and case, in the order of measurement."""
    groups: dict[Key, list[Record]] = {}
    for record in sorted(found, key=lambda r: r.provenance.measured_at):
        groups.setdefault((record.provenance.machine, record.case), []).append(record)
    return groups


def of_session(found: list[Record], session: str) -> list[Record]:
    return [r for r in found if r.provenance.session == session]


def paired(base: list[Record], change: list[Record]) -> list[Round]:
    """The rounds of one case, from its records in the order of measurement.

    Only those made by the code, and under the conditions, of the newest: what we changed in between is no regression of theirs.
    """
    sessions = dict.fromkeys(r.provenance.session for r in base)
    rounds = [Round(*pair) for s in sessions for pair in zip(of_session(base, s), of_session(change, s))]
    newest = max(rounds, key=lambda r: r.base.provenance.measured_at, default=None)
    return [r for r in rounds if newest and setting(r.base) == setting(newest.base)]


def setting(record: Record) -> tuple[object, ...]:
    """What must not differ between the rounds of a comparison."""
    proof = record.provenance
    return proof.commit, proof.dirty, proof.protocol, proof.threads, proof.hardware.get("cpu"), proof.hardware.get("device")


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
