"""Measure what claims lack on this machine, for `framebench claims --run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from framebench.analysis.results import Results
from framebench.analysis.rows import shorten_list
from framebench.claims import measure
from framebench.claims.claim import Claim, Measurement
from framebench.claims.ledger import list_names
from framebench.claims.lines import applies
from framebench.claims.measures import CaseMeasure, ProgramMeasure
from framebench.claims.plans import GPU
from framebench.claims.registry import REGISTRY
from framebench.claims.samples import TIME
from framebench.claims.store import NAMES_PROBE, MachineResults
from framebench.cli.measuring import measure_all
from framebench.cli.shared import BROKEN, open_session, say
from framebench.devices.plans.planning import planned_for
from framebench.engine import environments, runner
from framebench.engine.progress import (
    GUESS_S,
    count_measured,
    estimate_seconds,
    format_duration,
    read_known_seconds,
)
from framebench.engine.session import Session
from framebench.records import provenance
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.suite.sequences import drop_duplicates, group_by


@dataclass(frozen=True)
class InterruptedRun:
    """A run of the same command that was interrupted, which this one goes on with."""

    session: str  # its id
    blocks: int  # that the command asks for

    def lacks_blocks(self, machine: MachineResults, cases: Sequence[Case]) -> bool:
        """Return whether it has measured any of these cases, but not in all of its blocks."""
        for case in cases:
            records = machine.ok_records.get(case.id, [])
            measured = sum(record.provenance.session == self.session for record in records)
            if 0 < measured < self.blocks:
                return True
        return False


class Missing(NamedTuple):
    """The cases, programs and plans that claims need and a machine lacks, each once."""

    timed: list[Case]  # compared in time, in several blocks
    pairs: list[tuple[Case, Case]]  # those of them that are compared, without their baseline
    untimed: list[Case]  # without any record; one block is enough for memory and counts
    unsupported: list[Case]  # that this machine cannot measure
    probes: list[str]  # programs
    plans: list[Case]  # predicted for a GPU


def find_missing(
    claims: Sequence[Claim],
    machine: MachineResults,
    size: str,
    interrupted: InterruptedRun | None = None,
) -> Missing:
    """Return what the machine lacks, in the order of measuring."""
    untimed: list[Case] = []
    timed: list[Case] = []
    pairs: list[tuple[Case, Case]] = []
    probes: list[str] = []
    plans: list[Case] = []
    for measurement in list_measurements(claims, size):
        measure = measurement.measure
        for case in measure.list_planned_cases():
            if machine.get_plan(case) is None:
                plans.append(case)
        if isinstance(measure, ProgramMeasure) and lacks_result(measure, machine):
            probes.append(measure.probe)
        cases = measure.list_cases(size)
        if not isinstance(measure, CaseMeasure) or measure.quantity is not TIME:
            untimed += [case for case in cases if not machine.get_records(case)]
        elif not lacks_times(cases, machine, interrupted):
            continue
        elif any(case.strategy == case.scenario_spec.baseline for case in cases):
            timed += cases  # each block has the scenario's baseline anyway
        else:
            base, candidate = cases
            pairs.append((base, candidate))
    names = list_names(claims)
    if names and (machine.find_other_machine(NAMES_PROBE) or not machine.has_looked_up(names)):
        probes.append(NAMES_PROBE)
    unsupported = []
    for case in drop_duplicates([*untimed, *timed, *chain.from_iterable(pairs)]):
        if runner.explain_unsupported(case):
            unsupported.append(case)
    pairs = [pair for pair in drop_duplicates(pairs) if not set(pair) & set(unsupported)]
    timed = drop_duplicates([*timed, *chain.from_iterable(pairs)])
    timed = [case for case in timed if case not in unsupported]
    # a block that measures times measures the memory of its cases too
    excluded = {*timed, *unsupported}
    untimed = [case for case in drop_duplicates(untimed) if case not in excluded]
    return Missing(
        timed=timed,
        pairs=pairs,
        untimed=untimed,
        unsupported=unsupported,
        probes=drop_duplicates(probes),
        plans=drop_duplicates(plans),
    )


def list_measurements(claims: Sequence[Claim], size: str) -> list[Measurement]:
    """Return the measurements of claims that apply at this size.

    Those that decide come first: an interrupted command has then measured what counts.
    """
    measurements: list[Measurement] = []
    for claim in claims:
        measurements += claim.deciding
    for claim in claims:
        measurements += claim.informational
    return [measurement for measurement in measurements if applies(measurement, size)]


def lacks_result(measure: ProgramMeasure, machine: MachineResults) -> bool:
    """Return whether the machine itself has no result of the program as it is today."""
    result = machine.get_probe(measure.probe)
    is_of_other_machine = bool(machine.find_other_machine(measure.probe))
    return result is None or is_of_other_machine or not measure.is_current(result)


def lacks_times(
    cases: Sequence[Case], machine: MachineResults, interrupted: InterruptedRun | None
) -> bool:
    """Return whether the cases share no block, or an interrupted run lacks some of their blocks."""
    if machine.compare_times(*cases) is None:
        return True
    return interrupted is not None and interrupted.lacks_blocks(machine, cases)


def measure_missing(
    claims: tuple[Claim, ...], size: str, blocks: int, options: runner.Options, results: Path
) -> list[str]:
    """Run the programs, measure the cases and make the plans that these claims lack here.

    Print first how long that takes, or why nothing is measured. Return the programs that failed,
    and the ids of the cases.
    """
    untestable = [claim.name for claim in claims if claim.needs.lacking]
    if untestable:
        say(f"this suite cannot test {shorten_list(untestable)}")
    title = f"claims {' '.join(claim.name for claim in claims)} {size} {blocks} blocks"
    unfinished = Session.find_unfinished(results, provenance.name_code(), title)
    interrupted = InterruptedRun(unfinished.id, blocks) if unfinished else None
    here = MachineResults(Results(results), provenance.read_machine_name())
    missing = find_missing(claims, here, size, interrupted)
    unsupported = missing.unsupported
    if unsupported:
        reason = runner.explain_unsupported(unsupported[0])
        count = format_count(len(unsupported), "missing case")
        say(f"{count} cannot be measured here, such as {unsupported[0].id}: {reason}")
    if not (missing.timed or missing.untimed or missing.probes or missing.plans):
        if len(untestable) < len(claims) and not unsupported:
            say("nothing is missing: this machine has measured all that can be measured")
        return []
    seconds = estimate_work(missing, blocks, results, unfinished.id if unfinished else "")
    say(
        f"to be measured: {list_work(missing, blocks)}. That takes at least "
        f"{format_duration(seconds)}, and longer where environments and kernels are still to be "
        "built. Ctrl-C interrupts it; the same command goes on from there"
    )
    with open_session(results, title) as session:
        failed = run_programs(missing.probes, size, session, results)
        failed += measure_cases(missing, session, blocks, options, results)
        return failed + plan_cases(missing.plans, results)


def list_work(missing: Missing, blocks: int) -> str:
    """Return what is to be measured: `1 program; 4 cases, each 5 times; 2 cases once`."""
    counts = []
    if missing.probes:
        counts.append(format_count(len(missing.probes), "program"))
    if missing.timed:
        case_count = format_count(len(missing.timed), "case")
        counts.append(f"{case_count}, each {format_count(blocks, 'time')}")
    if missing.untimed:
        counts.append(f"{format_count(len(missing.untimed), 'case')} once")
    if missing.plans:
        counts.append(f"{format_count(len(missing.plans), 'plan')} for {GPU}")
    return "; ".join(counts)


def estimate_work(missing: Missing, blocks: int, results: Path, session: str) -> float:
    """Return the seconds that the missing measurements take.

    `session` is the id of an interrupted run, or "": the blocks that it has measured take no time.
    """
    cases = [*missing.timed, *missing.untimed]
    known_seconds = read_known_seconds(cases, results, guesses={})
    seconds_by_case = estimate_seconds(cases, known_seconds)
    measured_blocks = count_measured(results, session)
    # how long a program or a plan takes is unknown until it was made here
    seconds = GUESS_S * (len(missing.probes) + len(missing.plans))
    for case in missing.untimed:  # without a record, so the interrupted run has not measured it
        seconds += seconds_by_case[case]
    for case in missing.timed:
        seconds += seconds_by_case[case] * max(0, blocks - measured_blocks[case.id])
    return seconds


def run_programs(probes: Sequence[str], size: str, session: Session, results: Path) -> list[str]:
    """Run the program of each probe, also after one that failed. Return the probes that failed."""
    names = list_names(REGISTRY.claims)  # used by NAMES_PROBE alone
    failed = []
    for number, probe in enumerate(probes, 1):
        say(f"program {number} of {len(probes)}: {probe}")
        try:
            measure.run(probe, names, size, session.id, results, say)
        except (RuntimeError, environments.SetupError) as error:
            say(f"program {probe} failed: {error}")
            failed.append(probe)
    return failed


def measure_cases(
    missing: Missing, session: Session, blocks: int, options: runner.Options, results: Path
) -> list[str]:
    """Measure cases as `framebench run` does, and return the ids of those that failed.

    Cases that are compared in time are measured in `blocks` blocks, the others in one.
    """
    environment_by_framework = {}
    # build all environments first, and none between two measurements
    by_framework = group_by([*missing.timed, *missing.untimed], lambda case: case.framework)
    for framework, cases in by_framework.items():
        environment = environments.ensure(framework, say=say)
        environments.warm(environment, cases, say)
        environment_by_framework[framework] = environment
    failed = []
    for cases, block_count in ((missing.timed, blocks), (missing.untimed, 1)):
        # cases that share an environment and its files are measured together
        ordered = sorted(cases, key=attrgetter("workload", "framework", "scenario"))
        statuses = measure_all(
            ordered, session, environment_by_framework, options, results, block_count, missing.pairs
        )
        for case, status in zip(ordered, statuses, strict=True):
            if status in BROKEN:
                failed.append(case.id)
    if failed:
        say(f"these failed: {', '.join(failed)}")
    return failed


def plan_cases(cases: list[Case], results: Path) -> list[str]:
    """Plan cases for the GPU of the planned measurements. Return the ids of those that failed."""
    if not cases:
        return []
    hint = ""
    if results == runner.RESULTS:
        hint = "; `framebench dev publish` puts them where claims read them"
    say(f"planning {format_count(len(cases), 'case')} for {GPU}{hint}")
    plans = planned_for(cases, GPU, results, say)
    return [plan.case for plan in plans if plan.outcome == "failed"]
