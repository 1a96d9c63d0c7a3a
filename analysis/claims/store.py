"""What was measured on one machine, by case and with the files' names.

Of a framework one version counts, and only the newest protocol: arms of one ratio must be measured alike. Of a case all records
of one experiment count (`selection.select_repeats`).
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from analysis.results import Results
from analysis.selection import measured_at, of_one_protocol, of_one_version, select_repeats, unlimited
from framebench.records.probed import Probed
from framebench.records.record import Record
from framebench.suite.case import Case


class Measured:
    """The records and probes of one machine below a results folder."""

    def __init__(self, results: Results, machine: str) -> None:
        self.results, self.machine = results, machine
        own = unlimited(results.of_machine(machine))
        self.file = {id(r): name for name, r in results.files}
        self.last = {r.case: r for r in sorted(own, key=measured_at)}
        every: dict[str, list[Record]] = defaultdict(list)
        for r in of_one_protocol(of_one_version(own)):
            every[r.case].append(r)
        self.found = {case: select_repeats(several) for case, several in every.items()}
        self.probes = results.probes(machine)

    def records(self, case: Case) -> list[Record]:
        """Those that count, the newest last; empty if there is none that is ok."""
        return self.found.get(case.id, [])

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
        names = [self.file[id(r)] for case in cases for r in self.records(case)]
        names += [str(self.probes[probe][0])] if probe in self.probes else []
        return [Path(name).relative_to(self.results.root).as_posix() for name in names]
