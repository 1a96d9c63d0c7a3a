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
from framebench.engine.session import Session
from framebench.records import provenance
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.suite.sequences import drop_duplicates


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


def find_missing(claims: Sequence[Claim], machine: MachineResults, size: str) -> Missing:
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
            add_missing(missing, measurement, machine, size)
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
    missing: Missing, measurement: Measurement, machine: MachineResults, size: str
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
    elif machine.compare_times(*cases) is None:  # the times of a comparison are all of one block
        # each block has the scenario's baseline anyway
        if any(case.strategy == case.stage.baseline for case in cases):
            missing.timed += cases
        else:
            missing.pairs.append((cases[0], cases[1]))


def measure_missing(
    claims: tuple[Claim, ...], size: str, blocks: int, options: runner.Options, results: Path
) -> list[str]:
    """Run programs, measure cases and plan others, as far as these claims lack them here.

    Return what failed.
    """
    here = MachineResults(Results(results), provenance.read_machine_name())
    missing = find_missing(claims, here, size)
    cases = [*missing.once, *missing.timed]
    for pair in missing.pairs:
        cases += pair
    if not any(map(can_run, cases)) and not missing.probes and not missing.plans:
        say("nothing is missing that this machine can measure")
        return []
    title = f"claims {' '.join(claim.name for claim in claims)} {size} {blocks} blocks"
    with open_session(results, title) as session:
        failed = run_programs(missing.probes, size, session, results)
        failed += measure_cases(missing, cases, session, blocks, options, results)
        return failed + plan_cases(missing.plans, results)


def run_programs(probes: Iterable[str], size: str, session: Session, results: Path) -> list[str]:
    """Run one program after the other, also after one that failed. Return those that failed."""
    failed = []
    for probe in probes:
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
    timed = list(missing.timed)
    for pair in pairs:
        timed += pair
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

    measure_in_blocks(drop_duplicates(timed), blocks, pairs)
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
