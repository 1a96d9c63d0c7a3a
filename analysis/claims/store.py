"""What was measured on one machine, by case and with the files' names, and which of it counts.

Of a framework the highest version that has results here counts, and only the newest protocol: arms of one ratio must be
measured alike. Of a case all `ok` records count that `load.preferred` names and that were taken at the same commit as the
newest of them and within the hour before it: repeats are processes of one experiment, older code or another time is another.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from analysis.load import preferred
from analysis.statistics import NEAR_S
from framebench import claim_probes, records
from framebench.cases import Case
from framebench.claim_probes import Probed
from framebench.records import BadRecord, Provenance, Record, RecordWarning

T = TypeVar("T", bound="HasProvenance")


class HasProvenance(Protocol):
    @property
    def provenance(self) -> Provenance: ...


def readable(folder: Path, read: Callable[[Path], T]) -> Iterator[tuple[Path, T]]:
    """Every readable file below a folder; the others are named in a RecordWarning."""
    for path in sorted(folder.rglob("*.json")):
        try:
            yield path, read(path)
        except BadRecord as error:
            warnings.warn(f"skipped {error}", RecordWarning, stacklevel=2)


def number(version: str | None) -> tuple[int, ...]:
    """`1.3.11.0` as numbers, so that it comes after 1.3.9."""
    return tuple(int(part) for part in re.findall(r"\d+", version or ""))


class Measured:
    """The records and probes of one machine below a results folder."""

    def __init__(self, results: Path, machine: str) -> None:
        self.results, self.machine = results, machine
        every: dict[str, list[tuple[Path, Record]]] = defaultdict(list)
        versions: dict[str, str | None] = {}
        protocol = 0
        for path, record in readable(results / "records" / machine, records.read):
            every[record.case].append((path, record))
            protocol = max(protocol, record.provenance.protocol)
            framework, version = record.parsed.framework, record.framework_version
            if record.status == "ok" and number(version) > number(versions.get(framework)):
                versions[framework] = version
        self.found = {case: counting(found, versions, protocol) for case, found in every.items()}
        self.last = {case: newest(found)[1] for case, found in every.items()}
        self.probes = {p.probe: (path, p) for path, p in sorted(self.all_probes(), key=lambda x: x[1].provenance.measured_at)}

    def all_probes(self) -> list[tuple[Path, Probed]]:
        return list(readable(self.results / "claims" / self.machine, claim_probes.read))

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
        return [path.relative_to(self.results).as_posix() for path in paths]


def newest(found: list[tuple[Path, T]]) -> tuple[Path, T]:
    return max(found, key=lambda pair: pair[1].provenance.measured_at)


def counting(found: list[tuple[Path, Record]], versions: dict[str, str | None], protocol: int) -> list[tuple[Path, Record]]:
    """The ok records of the highest version and of this protocol that are preferred; of these the ones taken within the hour
    before the newest, at its commit. The newest is the last."""
    good = [
        (path, r)
        for path, r in found
        if r.status == "ok"
        and r.provenance.memory_limit is None
        and r.framework_version == versions[r.parsed.framework]
        and r.provenance.protocol == protocol
    ]
    if not good:
        return []
    good = preferred(good, lambda pair: (pair[1].disturbed, pair[1].provenance.session))
    last = newest(good)[1].provenance
    ordered = sorted(good, key=lambda pair: pair[1].provenance.measured_at)
    return [(p, r) for p, r in ordered if r.provenance.commit == last.commit and older(r.provenance, last) <= NEAR_S]


def older(one: Provenance, other: Provenance) -> float:
    """Seconds by which one was taken before the other."""
    return (other.measured_at - one.measured_at).total_seconds()


def machines(results: Path) -> list[str]:
    """Those that have records, the one with most of them first."""
    counts = Counter(path.relative_to(results / "records").parts[0] for path in (results / "records").rglob("*.json"))
    return [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
