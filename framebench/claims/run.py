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
from framebench.claims.store import NAMES, MachineResults
from framebench.cli.measuring import measure_all
from framebench.cli.shared import BROKEN, open_session, say
from framebench.devices.plans.planning import planned_for
from framebench.engine import environments, runner
from framebench.engine.session import Session
from framebench.records import provenance
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.counting import format_count


@dataclass
class Missing:
    """The cases, programs and plans that claims need and a machine lacks.

    The dictionaries are ordered sets: only their keys count.
    """

    once: dict[Case, None] = field(default_factory=dict)  # whose memory or counts are enough
    timed: dict[Case, None] = field(default_factory=dict)  # compared in time with their baseline
    pairs: dict[tuple[Case, Case], None] = field(default_factory=dict)  # or with each other
    probes: dict[str, None] = field(default_factory=dict)
    plans: dict[Case, None] = field(default_factory=dict)  # to be planned for a GPU


def find_missing(claims: Sequence[Claim], machine: MachineResults, size: str) -> Missing:
    """Return what these claims need and the machine lacks, in the order of measuring."""
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
    if names and (machine.find_other_machine(NAMES) or not machine.has_looked_up(names)):
        missing.probes[NAMES] = None
    # a block measures the memory of its cases too
    in_blocks = list(missing.timed)
    for pair in missing.pairs:
        in_blocks += pair
    for case in in_blocks:
        missing.once.pop(case, None)
    return missing


def add_missing(
    missing: Missing, measurement: Measurement, machine: MachineResults, size: str
) -> None:
    """Add to `missing` what one measurement lacks."""
    measure = measurement.measure
    for case in measure.list_planned_cases():
        if machine.get_plan(case) is None:
            missing.plans[case] = None
    if isinstance(measure, OfProgram):
        result = machine.get_probe(measure.probe)
        is_foreign = bool(machine.find_other_machine(measure.probe))
        if result is None or is_foreign or not measure.is_current(result):
            missing.probes[measure.probe] = None
    cases = measure.list_cases(size)
    if not isinstance(measure, OfCases) or measure.quantity is not TIME:
        missing.once |= {case: None for case in cases if not machine.get_records(case)}
    elif machine.compare_times(*cases) is None:  # the times of a comparison are all of one block
        # each block has the scenario's baseline anyway
        if any(case.strategy == case.stage.baseline for case in cases):
            missing.timed |= dict.fromkeys(cases)
        else:
            missing.pairs[cases[0], cases[1]] = None


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
        return failed + plan_cases(list(missing.plans), results)


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
    ready = {}
    # build all environments first, and none between two measurements
    for name in FRAMEWORKS:
        if any(case.framework == name and can_run(case) for case in cases):
            ready[name] = environments.ensure(name, say=say)
            environments.warm(ready[name], "standard", say)
    pairs = [(base, candidate) for base, candidate in missing.pairs if can_run(base, candidate)]
    timed = dict(missing.timed)
    for pair in pairs:
        timed |= dict.fromkeys(pair)
    failed = []
    for needed, block_count, block_pairs in ((timed, blocks, pairs), (missing.once, 1, [])):
        runnable = [case for case in needed if can_run(case)]
        runnable.sort(key=name_place)  # cases that share an environment and its files together
        statuses = measure_all(runnable, session, ready, options, results, block_count, block_pairs)
        for case, status in zip(runnable, statuses, strict=True):
            if status in BROKEN:
                failed.append(case.id)
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
