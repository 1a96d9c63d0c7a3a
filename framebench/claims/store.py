"""What was measured on one machine, by case and with the files' names.

One version of each framework counts, since both sides of a ratio must be measured alike. Of a
case's ok records those count that were made at the commit of the newest. Times are compared in all
blocks that two cases share, of whatever commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from framebench.analysis.blocks import Blocks
from framebench.analysis.results import Results
from framebench.analysis.selection import select_current, select_one_version
from framebench.analysis.statistics import Ratio
from framebench.claims import plans
from framebench.claims.preconditions import DeviceKind
from framebench.claims.probed_record import Probed
from framebench.records.pins import find_pinned_version
from framebench.records.record import Record, get_measurement_time
from framebench.records.record_parts import Provenance
from framebench.records.store import read_answers
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION

NAMES_PROBE = "names"  # the probe that looks names up
SNIPPET = "snippet-"  # the probes that run what articles print


class PlacedResult(NamedTuple):
    """The result of a probe, and the place of its line."""

    place: str
    result: Probed


class MachineResults:
    """The records, probes and plans that count for one machine."""

    def __init__(self, results: Results, machine: str) -> None:
        """Read the machine's records, and choose those that count (see the module)."""
        self.results = results
        self.machine = machine
        records = sorted(select_current(results.get_records(machine)), key=get_measurement_time)
        self.protocol = records[-1].provenance.protocol if records else VERSION
        # by case; a later record of it replaces an earlier one
        self.newest = {record.case: record for record in records}
        self.ok_records: dict[str, list[Record]] = defaultdict(list)
        # by case: the newest whose step came to a result, even a wrong one
        self.newest_results: dict[str, Record] = {}
        for record in select_one_version(records):
            if record.status == "ok":
                self.ok_records[record.case].append(record)
            if record.status in ("ok", "wrong"):
                self.newest_results[record.case] = record
        self.plans = plans.read_plans(results.root)  # for the GPU `plans.GPU`, by case
        self.placed_results = read_probes(results.root)

    @cached_property
    def record_files(self) -> dict[int, str]:
        """Return the file of each record, by the record's identity."""
        return {id(record): name for name, record in self.results.read_machine(self.machine)}

    @cached_property
    def blocks(self) -> Blocks:
        """Return the blocks in which times were compared."""
        return Blocks(chain.from_iterable(self.ok_records.values()))

    @cached_property
    def probes(self) -> dict[str, PlacedResult]:
        """Return the result of each probe that counts, by name.

        The result is this machine's newest. If the machine has none, or one of an older program
        (which printed other numbers), the newest of any machine counts: a probe has both sides of
        its comparison, so the machine hardly matters.
        """
        newest: dict[str, PlacedResult] = {}
        own: dict[str, PlacedResult] = {}
        for placed in self.placed_results:  # from the oldest to the newest
            provenance = placed.result.provenance
            if provenance.protocol == self.protocol:
                newest[placed.result.probe] = placed
                if provenance.machine == self.machine:
                    own[placed.result.probe] = placed
        chosen = dict(newest)
        for name, placed in own.items():
            if list_result_names(placed.result) == list_result_names(newest[name].result):
                chosen[name] = placed
        return chosen

    def prefer_processor(self, cpu_flag: str) -> MachineResults:
        """Return the same results, but of a program the newest that such a processor printed.

        `cpu_flag` is an instruction set for bfloat16, such as `amx_bf16`. A result that counts here
        and is of such a processor stays, and so does one of a program that none has run.
        """
        changed = copy(self)
        changed.probes = dict(self.probes)
        for placed in self.placed_results:  # from the oldest to the newest
            provenance = placed.result.provenance
            counted = self.probes.get(placed.result.probe)
            if counted is None or cpu_flag in get_cpu_flags(counted.result.provenance):
                continue
            if provenance.protocol == self.protocol and cpu_flag in get_cpu_flags(provenance):
                changed.probes[placed.result.probe] = placed
        return changed

    def get_records(self, case: Case) -> list[Record]:
        """Return the ok records of a case by the newest commit that has any, the newest last."""
        ok_records = self.ok_records.get(case.id)
        if not ok_records:
            return []
        newest_commit = ok_records[-1].provenance.commit
        return [record for record in ok_records if record.provenance.commit == newest_commit]

    def list_newest_result(self, case: Case) -> list[Record]:
        """Return a list of the newest record with a result, right or wrong; empty without one."""
        newest = self.newest_results.get(case.id)
        if newest is None:
            return []
        return [newest]

    def has_all(self, cases: Sequence[Case]) -> bool:
        """Return whether there are cases, and records of each."""
        return bool(cases) and all(case.id in self.ok_records for case in cases)

    def compare_times(self, base: Case, candidate: Case) -> Ratio | None:
        """Return the ratio of step times over the blocks that the two cases share.

        Returns None if they share no block.
        """
        if not self.has_all([base, candidate]):
            return None
        return self.blocks.compare(self.ok_records[base.id], self.ok_records[candidate.id])

    def describe_failure(self, case: Case) -> str:
        """Return status and reason of a case's newest record if it failed, and otherwise ""."""
        newest = self.newest.get(case.id)
        if newest is None or newest.status == "ok":
            return ""
        return f"{newest.status}: {newest.reason}"

    @cached_property
    def wrong_steps(self) -> set[tuple[str, ...]]:
        """Return the steps whose newest results are wrong on all machines, sizes and batches."""
        newest: dict[tuple[str, str], Record] = {}
        for machine in self.results.machines:
            for record in sorted(self.results.get_records(machine), key=get_measurement_time):
                newest[machine, record.case] = record
        right: set[tuple[str, ...]] = set()
        wrong: set[tuple[str, ...]] = set()
        for record in newest.values():
            if record.status == "ok":
                right.add(name_step(record.parsed))
            elif record.status == "wrong":
                wrong.add(name_step(record.parsed))
        return wrong - right

    def is_wrong_everywhere(self, case: Case) -> bool:
        """Return whether the step of a case gave wrong results wherever it ran."""
        return name_step(case) in self.wrong_steps

    def is_proven(self, case: Case) -> bool:
        """Return whether the strategy's effect is confirmed in every ok record of the case."""
        records = self.ok_records.get(case.id, [])
        return all(record.effect is None or record.effect.proven for record in records)

    @cached_property
    def is_cpu_only(self) -> bool:
        """Return whether no record of the machine was measured on a GPU."""
        records = chain.from_iterable(self.ok_records.values())
        return all(get_device(record.provenance) == "cpu" for record in records)

    def get_probe(self, name: str) -> Probed | None:
        """Return the result of a probe, or None without one."""
        return self.probes[name].result if name in self.probes else None

    def find_other_machine(self, probe: str) -> str:
        """Return the machine of a probe if it is not this one, and otherwise ""."""
        result = self.get_probe(probe)
        if result is None or result.provenance.machine == self.machine:
            return ""
        return result.provenance.machine

    def get_plan(self, case: Case) -> plans.Plan | None:
        """Return the plan of a case on the GPU `plans.GPU`, or None without a plan."""
        return self.plans.get(case.id)

    def has_looked_up(self, names: Sequence[str]) -> bool:
        """Return whether the last look-up looked for all of these names."""
        result = self.get_probe(NAMES_PROBE)
        return result is not None and result.names.keys() >= set(names)

    def list_files(self, cases: Iterable[Case], probe: str = "", timed: bool = False) -> list[str]:
        """Return the files behind cases and a probe, relative to the results folder.

        With `timed` they are the files of all timed records, and otherwise of the records of the
        newest commit. A probe without a result has no file.
        """
        counted: list[Record] = []
        for case in cases:
            records = self.get_records(case)
            if timed:
                records = [record for record in self.ok_records.get(case.id, []) if record.timed]
            counted += records
        names = self.list_record_files(counted)
        if probe in self.probes:
            names.append(self.make_relative(Path(self.probes[probe].place)))
        return names

    def list_record_files(self, records: Iterable[Record]) -> list[str]:
        """Return the files of records, relative to the results folder."""
        return [self.make_relative(Path(self.record_files[id(record)])) for record in records]

    def make_relative(self, file: Path) -> str:
        """Return a file's name below the results folder."""
        return file.relative_to(self.results.root).as_posix()


def read_probes(root: Path) -> list[PlacedResult]:
    """Return the results of probes by the pinned releases, newest last."""
    found = []
    for place, result in read_answers(Probed, root / "claims"):
        if is_pinned(result.provenance):
            found.append(PlacedResult(place, result))
    return sorted(found, key=lambda placed: placed.result.provenance.measured_at)


def name_step(case: Case) -> tuple[str, ...]:
    """Return a case's workload, framework, scenario and strategy."""
    return case.workload, case.framework, case.scenario, case.strategy


def list_result_names(probed: Probed) -> set[str]:
    """Return the names of a probe's results, which tell the version of its program."""
    return {*probed.found, *probed.names}


def get_device(provenance: Provenance) -> DeviceKind:
    """Return on which kind of device a record was measured."""
    return "cpu" if provenance.hardware.get("device", "cpu") == "cpu" else "gpu"


def get_cpu_flags(provenance: Provenance) -> list[str]:
    """Return the instruction sets for bfloat16 of a record's processor, if the record lists any."""
    flags: list[str] = provenance.hardware.get("bfloat16", [])
    return flags


def is_pinned(provenance: Provenance) -> bool:
    """Return whether every framework that ran is of its pinned release."""
    for name, version in provenance.versions.items():
        if name in FRAMEWORKS and version.split("+")[0] != find_pinned_version(name):
            return False
    return True
