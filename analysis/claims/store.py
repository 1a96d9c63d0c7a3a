"""What was measured on one machine, by case and with the files' names, and which of it counts.

Of a framework one version counts (`frames.settled`), and only the newest protocol: arms of one ratio must be measured alike.
Of a case all `ok` records count that `frames.preferred` names and that were taken at the same commit as the newest of them and
within the hour before it: repeats are processes of one experiment, older code or another time is another.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

from analysis.frames import preferred, settled
from analysis.results import Results
from analysis.statistics import near
from framebench.measure.claim_probes import Probed
from framebench.records.record import Provenance, Record
from framebench.suite.case import Case

T = TypeVar("T", bound="HasProvenance")


class HasProvenance(Protocol):
    @property
    def provenance(self) -> Provenance: ...


class Measured:
    """The records and probes of one machine below a results folder."""

    def __init__(self, results: Results, machine: str) -> None:
        self.results, self.machine = results, machine
        every: dict[str, list[tuple[Path, Record]]] = defaultdict(list)
        last: dict[str, dict[str, datetime]] = defaultdict(dict)
        protocol = 0
        for path, record in ((Path(name), r) for name, r in results.files if r.provenance.machine == machine):
            every[record.case].append((path, record))
            protocol = max(protocol, record.provenance.protocol)
            seen, version, at = last[record.parsed.framework], record.framework_version, record.provenance.measured_at
            if record.status == "ok" and version is not None:
                seen[version] = max(at, seen.get(version, at))
        versions = {framework: settled(framework, seen) for framework, seen in last.items() if seen}
        self.found = {case: counting(found, versions, protocol) for case, found in every.items()}
        self.last = {case: newest(found)[1] for case, found in every.items()}
        self.probes = results.probes(machine)

    def records(self, case: Case) -> list[Record]:
        """Those that count, the newest last; empty if there is none that is ok."""
        return [record for _, record in self.found.get(case.id, [])]

    def failure(self, case: Case) -> str:
        """Why the case has no numbers though it was tried: status and reason of its last record; empty if it was not."""
        last = self.last.get(case.id)
        return f"{last.status}: {last.reason}" if last and last.status != "ok" else ""

    def proven(self, case: Case) -> bool:
        """Whether the strategy was seen at work in every record that counts."""
        return all(record.effect is None or record.effect.proven for record in self.records(case))

    def probe(self, name: str) -> Probed | None:
        """The newest result of a probe."""
        return self.probes[name][1] if name in self.probes else None

    def files(self, cases: list[Case], probe: str = "") -> list[str]:
        """The files behind them, relative to the results folder."""
        paths = [path for case in cases for path, _ in self.found.get(case.id, [])]
        paths += [self.probes[probe][0]] if probe in self.probes else []
        return [path.relative_to(self.results.root).as_posix() for path in paths]


def newest(found: list[tuple[Path, T]]) -> tuple[Path, T]:
    return max(found, key=lambda pair: pair[1].provenance.measured_at)


def counting(found: list[tuple[Path, Record]], versions: dict[str, str], protocol: int) -> list[tuple[Path, Record]]:
    """The ok records of these versions and this protocol that are preferred; of these the ones taken within the hour before the
    newest, at its commit. The newest is the last."""
    good = [
        (path, r)
        for path, r in found
        if r.status == "ok"
        and r.provenance.memory_limit is None
        and r.framework_version == versions.get(r.parsed.framework)
        and r.provenance.protocol == protocol
    ]
    if not good:
        return []
    good = preferred(good, lambda pair: (pair[1].contended, pair[1].provenance.session))
    last = newest(good)[1].provenance
    alike = [
        (path, r) for path, r in good if r.provenance.commit == last.commit and near(r.provenance.measured_at, last.measured_at)
    ]
    return sorted(alike, key=lambda pair: pair[1].provenance.measured_at)
