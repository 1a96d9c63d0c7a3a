"""Measure what claims lack on this machine, for `framebench claims --run`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from framebench.analysis.results import Results
from framebench.claims import measure
from framebench.claims.claim import Claim, Measurement
from framebench.claims.ledger import list_names
from framebench.claims.lines import applies
from framebench.claims.measures import OfCases, OfProgram
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
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.suite.sequences import drop_duplicates


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


@dataclass
class Missing:
    """The cases, programs and plans that claims need and a machine lacks.

    Several claims may need the same: `find_missing` returns each once.
    """

    once: list[Case] = field(default_factory=list)  # one block is enough for memory and counts
    timed: list[Case] = field(default_factory=list)  # compared in time with their baseline
    pairs: list[tuple[Case, Case]] = field(default_factory=list)  # or with each other
    probes: list[str] = field(default_factory=list)  # programs
    plans: list[Case] = field(default_factory=list)  # predicted for a GPU

    def list_cases(self) -> list[Case]:
        """Return all cases that are to be measured, each once."""
        cases = [*self.once, *self.timed]
        for pair in self.pairs:
            cases += pair
        return drop_duplicates(cases)

    def list_timed(self) -> list[Case]:
        """Return the cases that can be measured here and compared in time, each once."""
        timed = [case for case in self.timed if can_run(case)]
        for base, candidate in self.pairs:
            if can_run(base, candidate):
                timed += [base, candidate]
        return drop_duplicates(timed)


def find_missing(
    claims: Sequence[Claim],
    machine: MachineResults,
    size: str,
    interrupted: InterruptedRun | None = None,
) -> Missing:
    """Return the cases, programs and plans that the machine lacks, in the order of measuring."""
    missing = Missing()
    measurements: list[Measurement] = []
    for claim in claims:
        measurements += claim.deciding
    # last, so that an interrupted command has measured what decides
    for claim in claims:
        measurements += claim.informational
    for measurement in measurements:
        if applies(measurement, size):
            add_missing(missing, measurement, machine, size, interrupted)
    names = list_names(claims)
    if names and (machine.find_other_machine(NAMES_PROBE) or not machine.has_looked_up(names)):
        missing.probes.append(NAMES_PROBE)
    # a block measures the memory of its cases too
    in_blocks = set(missing.timed)
    for pair in missing.pairs:
        in_blocks.update(pair)
    return Missing(
        once=drop_duplicates(case for case in missing.once if case not in in_blocks),
        timed=drop_duplicates(missing.timed),
        pairs=drop_duplicates(missing.pairs),
        probes=drop_duplicates(missing.probes),
        plans=drop_duplicates(missing.plans),
    )


def add_missing(
    missing: Missing,
    measurement: Measurement,
    machine: MachineResults,
    size: str,
    interrupted: InterruptedRun | None,
) -> None:
    """Add to `missing` the cases, programs and plans that one measurement lacks."""
    measure = measurement.measure
    for case in measure.list_planned_cases():
        if machine.get_plan(case) is None:
            missing.plans.append(case)
    if isinstance(measure, OfProgram):
        result = machine.get_probe(measure.probe)
        is_foreign = bool(machine.find_other_machine(measure.probe))
        if result is None or is_foreign or not measure.is_current(result):
            missing.probes.append(measure.probe)
    cases = measure.list_cases(size)
    if not isinstance(measure, OfCases) or measure.quantity is not TIME:
        missing.once += [case for case in cases if not machine.get_records(case)]
        return
    # the times of a comparison are all of one block
    is_missing = machine.compare_times(*cases) is None
    if is_missing or (interrupted and interrupted.lacks_blocks(machine, cases)):
        # each block has the scenario's baseline anyway
        if any(case.strategy == case.scenario_spec.baseline for case in cases):
            missing.timed += cases
        else:
            missing.pairs.append((cases[0], cases[1]))


def measure_missing(
    claims: tuple[Claim, ...], size: str, blocks: int, options: runner.Options, results: Path
) -> list[str]:
    """Run programs, measure cases and plan others, as far as these claims lack them here.

    Say before how long that takes, or why nothing is measured. Return what failed.
    """
    untestable = explain_untestable(claims)
    if untestable:
        say(untestable)
    title = f"claims {' '.join(claim.name for claim in claims)} {size} {blocks} blocks"
    unfinished = Session.unfinished(results, provenance.name_code(), title)
    interrupted = InterruptedRun(unfinished.id, blocks) if unfinished else None
    here = MachineResults(Results(results), provenance.read_machine_name())
    missing = find_missing(claims, here, size, interrupted)
    cases = missing.list_cases()
    unsupported = [case for case in cases if not can_run(case)]
    if unsupported:
        reason = runner.explain_unsupported(unsupported[0])
        count = format_count(len(unsupported), "missing case")
        say(f"{count} cannot be measured here, such as {unsupported[0].id}: {reason}")
    can_measure = len(unsupported) < len(cases)
    if not (can_measure or missing.probes or missing.plans):
        is_testable = any(not claim.needs.lacking for claim in claims)
        if is_testable and not unsupported:
            say("nothing is missing: this machine has measured all that can be measured")
        return []
    say(describe_work(missing, blocks, results, unfinished.id if unfinished else ""))
    with open_session(results, title) as session:
        failed = run_programs(missing.probes, size, session, results)
        failed += measure_cases(missing, cases, session, blocks, options, results)
        return failed + plan_cases(missing.plans, results)


def explain_untestable(claims: Sequence[Claim]) -> str:
    """Return which of these claims no measurement of the suite decides, or "" if there is none."""
    untestable = [claim for claim in claims if claim.needs.lacking]
    if not untestable:
        return ""
    first = untestable[0]
    if len(untestable) == 1:
        return f"{first.name} cannot be tested by this suite: it {first.needs.lacking}"
    return (
        f"{len(untestable)} of {len(claims)} claims cannot be tested by this suite, such as "
        f"{first.name}; `framebench claims ID` says what each of them needs"
    )


def describe_work(missing: Missing, blocks: int, results: Path, session: str) -> str:
    """Return what is about to be measured, how long that takes, and how to interrupt it.

    `session` is that of an interrupted run, or empty: what it has measured takes no time.
    """
    timed = missing.list_timed()
    once = [case for case in missing.once if can_run(case)]
    parts = []
    if missing.probes:
        parts.append(format_count(len(missing.probes), "program"))
    if timed:
        parts.append(f"{format_count(len(timed), 'case')}, each {format_count(blocks, 'time')}")
    if once:
        parts.append(f"{format_count(len(once), 'case')} once")
    if missing.plans:
        parts.append(f"{format_count(len(missing.plans), 'plan')} for {GPU}")
    expected_s = estimate_seconds([*timed, *once], read_known_seconds([*timed, *once], results, {}))
    measured = count_measured(results, session)
    # nobody knows how long a program or a plan takes that was never made here
    seconds = GUESS_S * (len(missing.probes) + len(missing.plans))
    for case in once:
        seconds += expected_s[case]
    for case in timed:
        seconds += expected_s[case] * max(0, blocks - measured[case.id])
    return (
        f"to be measured: {'; '.join(parts)}. That takes at least {format_duration(seconds)}, and "
        "longer where environments and kernels are still to be built. Ctrl-C interrupts it; the "
        "same command goes on from there"
    )


def run_programs(probes: Sequence[str], size: str, session: Session, results: Path) -> list[str]:
    """Run one program after the other, also after one that failed. Return those that failed."""
    failed = []
    for number, probe in enumerate(probes, 1):
        say(f"program {number} of {len(probes)}: {probe}")
        try:
            measure.run(probe, list_names(REGISTRY.claims), size, session.id, results, say)
        except (RuntimeError, environments.SetupError) as error:
            say(f"program {probe} failed: {error}")
            failed.append(probe)
    return failed


def measure_cases(
    missing: Missing,
    cases: Sequence[Case],
    session: Session,
    blocks: int,
    options: runner.Options,
    results: Path,
) -> list[str]:
    """Measure cases as `framebench run` does, and return the ids of those that failed.

    Cases that are compared in time are measured in `blocks` blocks, the others in one.
    """
    environment_by_framework = {}
    # build all environments first, and none between two measurements
    for name in FRAMEWORKS:
        if any(case.framework == name and can_run(case) for case in cases):
            environment = environments.ensure(name, say=say)
            environments.warm(environment, cases, say)
            environment_by_framework[name] = environment
    pairs = [(base, candidate) for base, candidate in missing.pairs if can_run(base, candidate)]
    failed = []

    def measure_in_blocks(
        chosen: Iterable[Case], block_count: int, block_pairs: Sequence[tuple[Case, Case]]
    ) -> None:
        runnable = [case for case in chosen if can_run(case)]
        runnable.sort(key=name_place)  # cases that share an environment and its files together
        statuses = measure_all(
            runnable,
            session,
            environment_by_framework,
            options,
            results,
            block_count,
            block_pairs,
        )
        for case, status in zip(runnable, statuses, strict=True):
            if status in BROKEN:
                failed.append(case.id)

    measure_in_blocks(missing.list_timed(), blocks, pairs)
    measure_in_blocks(missing.once, 1, [])
    if failed:
        say(f"these failed: {', '.join(failed)}")
    return failed


def can_run(*cases: Case) -> bool:
    """Return whether this machine can measure all of these cases."""
    return not any(map(runner.explain_unsupported, cases))


def name_place(case: Case) -> tuple[str, str, str]:
    """Return the workload, the framework and the scenario of a case."""
    return case.workload, case.framework, case.scenario


def plan_cases(cases: list[Case], results: Path) -> list[str]:
    """Plan cases for the GPU of the planned measurements. Return the ids of those that failed."""
    if not cases:
        return []
    hint = ""
    if results == runner.RESULTS:
        hint = "; `framebench dev publish` puts them where claims read them"
    say(f"planning {format_count(len(cases), 'case')} for {GPU}{hint}")
    planned = planned_for(cases, GPU, results, say)
    return [one.case for one in planned if one.outcome == "failed"]
