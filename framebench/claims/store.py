"""What was measured on one machine, by case and with the files' names.

Of a framework one version counts: arms of one ratio must be measured alike. Of a case all ok records count that are of its
newest one's commit; times are compared in all blocks that two cases share, whenever they were.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from framebench.analysis.blocks import Blocks
from framebench.analysis.results import Results
from framebench.analysis.selection import counting, measured_at, of_one_version
from framebench.analysis.statistics import Ratio
from framebench.claims import plans, probed_record
from framebench.claims.measures import Measure
from framebench.claims.needs import Conditions, Device
from framebench.claims.planned_measures import OF_PLANS, PlannedReport
from framebench.claims.plans import CARD, Plan
from framebench.claims.probed_record import Probed
from framebench.records.pins import pinned_version
from framebench.records.record import Provenance, Record
from framebench.records.store import BadRecord, RecordWarning
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import FULL_SIZE, Case
from framebench.suite.protocol import VERSION

NAMES, SNIPPET = "names", "snippet-"  # the probe that looks names up, and those that run what articles print


class Measured:
    """The records and probes of one machine below a results folder."""

    def __init__(self, results: Results, machine: str) -> None:
        self.results, self.machine = results, machine
        records = sorted(counting(results.of_machine(machine)), key=measured_at)
        self.file = {id(r): name for name, r in results.files}
        self.last = {r.case: r for r in records}
        self.every: dict[str, list[Record]] = defaultdict(list)
        self.protocol = records[-1].provenance.protocol if records else VERSION
        for r in of_one_version(records):
            if r.status == "ok":
                self.every[r.case].append(r)
        self.blocks = Blocks(r for several in self.every.values() for r in several)
        self.probes = self._probes()
        self.plans = plans.kept(results.root)

    def _probes(self) -> dict[str, tuple[Path, Probed]]:
        """A probe has both sides of its comparison in it: where this machine has none by today's program, the newest of any
        machine's stands. Older programs found other numbers."""
        folder = self.results.root / "claims"
        own, newest = probes(folder / self.machine, self.protocol), probes(folder, self.protocol)
        return newest | {name: one for name, one in own.items() if asked(one[1]) == asked(newest[name][1])}

    def elsewhere(self, probe: str) -> str:
        """The machine of a probe, if it is not this one."""
        found = self.probe(probe)
        return found.provenance.machine if found and found.provenance.machine != self.machine else ""

    def unlike(self, cases: Sequence[Case]) -> str:
        """The compiler's options that some cases of a comparison were compiled with, and others were not."""
        options = [
            frozenset((name, str(value)) for r in self.records(case) for name, value in compiler_options(r).items())
            for case in cases
        ]
        apart = sorted(frozenset().union(*options) - options[0].intersection(*options)) if options else []
        return f"Compiled with {', '.join('='.join(one) for one in apart)} on one side alone" if apart else ""

    def records(self, case: Case) -> list[Record]:
        """Those that count, the newest last; empty if there is none that is ok."""
        every = self.every.get(case.id, [])
        return [r for r in every if r.provenance.commit == every[-1].provenance.commit]

    def has_all(self, cases: Sequence[Case]) -> bool:
        """Whether there are cases, and records of each."""
        return bool(cases) and all(case.id in self.every for case in cases)

    def time_ratio(self, base: Case, change: Case) -> Ratio | None:
        """Of step times, over the blocks that the two cases share; None if there is none."""
        one, other = self.every.get(base.id, []), self.every.get(change.id, [])
        return self.blocks.ratio(one, other) if one and other else None

    def failure(self, case: Case) -> str:
        """Why the case has no numbers though it was tried: status and reason of its last record; empty if it was not."""
        last = self.last.get(case.id)
        return f"{last.status}: {last.reason}" if last and last.status != "ok" else ""

    def proven(self, case: Case) -> bool:
        """Whether the strategy was seen at work in every record, those of earlier blocks included."""
        return all(record.effect is None or record.effect.proven for record in self.every.get(case.id, []))

    @cached_property
    def on_cpu(self) -> bool:
        """Whether nothing here was measured on a GPU."""
        return all(r.provenance.hardware.get("device", "cpu") == "cpu" for several in self.every.values() for r in several)

    def probe(self, name: str) -> Probed | None:
        """The newest result of a probe."""
        return self.probes[name][1] if name in self.probes else None

    def plan(self, case: Case) -> Plan | None:
        return self.plans.get(case.id)

    def reported_plan(self, release: str, program: str) -> dict[str, int]:
        return plans.reported(self.results.root, release, program)

    def planned_files(self, measure: Measure) -> list[str]:
        """Of predictions, relative to the results folder."""
        if isinstance(measure, PlannedReport):
            files = [plans.reported_file(self.results.root, measure.release)]
        else:
            files = [plan.file for case in measure.planned() if (plan := self.plan(case))]  # type: ignore[attr-defined]
        return [file.relative_to(self.results.root).as_posix() for file in files if file.exists()]

    def conditions(self, measure: Measure, size: str) -> Conditions:
        """Under which an arm's numbers came about, or would."""
        if isinstance(measure, PlannedReport):
            return Conditions(FULL_SIZE, "gpu", versions={"jax": measure.release}, card=CARD)
        if isinstance(measure, OF_PLANS):
            cases = measure.planned()
            found = [plan for case in cases if (plan := self.plan(case))]
            return Conditions(FULL_SIZE, "gpu", versions={cases[0].framework: found[0].version} if found else {}, card=CARD)
        cases = measure.cases(size)
        probed = self.probe(measure.probe) if measure.probe else None
        origins = [r.provenance for case in cases for r in self.records(case)] + ([probed.provenance] if probed else [])
        gpu = any(case.support.gpu for case in cases) and not origins
        return Conditions(
            cases[0].size if cases else "", "gpu" if gpu and not self.on_cpu else device(origins), flags(origins),
            {name: version for origin in origins for name, version in origin.versions.items()}, card=card(origins),
        )  # fmt: skip

    def unasked(self, names: Sequence[str]) -> list[str]:
        """Names that the last look-up did not look for."""
        looked_up = self.probe(NAMES)
        return [name for name in names if looked_up is None or name not in looked_up.names]

    def files(self, cases: list[Case], probe: str = "", timed: bool = False) -> list[str]:
        """The files behind them, relative to the results folder; of times those of all blocks."""
        case_records = [r for case in cases for r in (self.every.get(case.id, []) if timed else self.records(case))]
        names = [self.file[id(r)] for r in case_records if r.timed or not timed]
        names += [str(self.probes[probe][0])] if probe in self.probes else []
        return [Path(name).relative_to(self.results.root).as_posix() for name in names]


def asked(probed: Probed) -> set[str]:
    """What the program looked for: another program's keys are others."""
    return {*probed.found, *probed.names}


def compiler_options(record: Record) -> dict[str, Any]:
    found = record.effect.evidence.get("compiler_options") if record.effect else None
    return found if isinstance(found, dict) else {}


def device(origins: Sequence[Provenance]) -> Device:
    return "gpu" if any(origin.hardware.get("device", "cpu") != "cpu" for origin in origins) else "cpu"


def card(origins: Sequence[Provenance]) -> str:
    """Its name, if one was there."""
    return next((str(name) for o in origins if (name := o.hardware.get("device", "cpu")) != "cpu"), "")


def flags(origins: Sequence[Provenance]) -> frozenset[str] | None:
    """Of the processors' instructions those for bfloat16, which alone are recorded; None where one does not tell."""
    told = [origin.hardware["bfloat16"] for origin in origins if "bfloat16" in origin.hardware]
    return frozenset.intersection(*map(frozenset, told)) if origins and len(told) == len(origins) else None


def probes(folder: Path, protocol: int) -> dict[str, tuple[Path, Probed]]:
    """By name the newest result of each probe below the folder that is of this protocol and of the pinned release, and its
    file."""
    every = []
    for path in folder.rglob("*.json"):
        try:
            probed = probed_record.read(path)
        except BadRecord as error:
            warnings.warn(f"skipped {error}", RecordWarning, stacklevel=2)
            continue
        if probed.provenance.protocol == protocol and of_pinned_release(probed.provenance):
            every.append((path, probed))
    return {probed.probe: (path, probed) for path, probed in sorted(every, key=lambda each: each[1].provenance.measured_at)}


def of_pinned_release(origin: Provenance) -> bool:
    """A probe names the frameworks that ran in it."""
    return all(version.split("+")[0] == pinned_version(name) for name, version in origin.versions.items() if name in FRAMEWORKS)
