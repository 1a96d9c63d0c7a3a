"""What claims need and a machine lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from framebench.claims.claim import Claim, Measurement
from framebench.claims.ledger import list_names
from framebench.claims.lines import applies
from framebench.claims.measures import OfCases, Outdated, Unpaired
from framebench.claims.rule import NoNumber
from framebench.claims.store import NAMES, MachineResults
from framebench.suite.case import Case


@dataclass(frozen=True)
class Missing:
    """What is to be measured, and the cases that are to be planned for a GPU."""

    once: list[Case]  # cases whose memory or counts are enough
    timed: list[Case]  # cases whose times are compared with their baseline's
    pairs: list[tuple[Case, Case]]  # that are compared in time with each other
    probes: list[str]
    plans: list[Case]

    @property
    def cases(self) -> list[Case]:
        """All cases that are to be measured, each once."""
        cases = list(self.timed)
        for pair in self.pairs:
            cases += pair
        return list(dict.fromkeys(cases + self.once))


def find_missing(
    claims: Sequence[Claim],
    machine: MachineResults,
    size: str,
    informational: bool = True,
    with_cases: bool = True,
) -> Missing:
    """Return what these claims need and the machine lacks: for the deciding measurements first.

    Without `with_cases`, probes and plans alone.
    """
    measurements = list_measurements(claims, size, informational)
    # dicts for their order: each case and pair once
    once: dict[Case, None] = {}
    timed: dict[Case, None] = {}
    pairs: dict[tuple[Case, Case], None] = {}
    for measurement in measurements if with_cases else ():
        cases = find_missing_cases(measurement, machine, size)
        has_baseline = any(case.strategy == case.stage.baseline for case in cases)
        if not needs_blocks(measurement):
            once |= dict.fromkeys(cases)
        elif len(cases) == 2 and not has_baseline:
            pairs[cases[0], cases[1]] = None
        else:  # each block has the scenario's baseline anyway, the own framework's or PyTorch's
            timed |= dict.fromkeys(cases)
    in_blocks = set(timed).union(*pairs)
    return Missing(
        once=group_by_workload(case for case in once if case not in in_blocks),
        timed=group_by_workload(timed),
        pairs=list(pairs),
        probes=find_missing_probes(claims, measurements, machine, size),
        plans=find_missing_plans(measurements, machine),
    )


def list_measurements(claims: Sequence[Claim], size: str, informational: bool) -> list[Measurement]:
    """Return the measurements that a size has, the deciding ones first."""
    measurements: list[Measurement] = []
    for claim in claims:
        measurements += claim.deciding
    if informational:
        for claim in claims:
            measurements += claim.informational
    return [one for one in measurements if applies(one, size)]


def needs_blocks(measurement: Measurement) -> bool:
    """Return whether it takes several blocks, as times and their shares do."""
    return isinstance(measurement.measure, OfCases) and measurement.measure.quantity.needs_blocks


def find_missing_cases(measurement: Measurement, machine: MachineResults, size: str) -> list[Case]:
    """Return the cases that have no records.

    Of times, which are taken in one block, all if any has none.
    """
    cases = measurement.measure.cases(size)
    missing = [case for case in cases if not machine.records(case)]
    if missing:
        return cases if needs_blocks(measurement) else missing
    return cases if isinstance(find_failure(measurement, machine, size), Unpaired) else []


def find_failure(measurement: Measurement, machine: MachineResults, size: str) -> NoNumber | None:
    """Return why there is no number, or None if there is one."""
    try:
        measurement.measure.effect(machine, size)
    except NoNumber as reason:
        return reason
    return None


def find_missing_probes(
    claims: Sequence[Claim], measurements: Sequence[Measurement], machine: MachineResults, size: str
) -> list[str]:
    """Return the probes that this machine has no result of, by today's program."""
    missing: dict[str, None] = {}  # each once, in order
    for measurement in measurements:
        probe = measurement.measure.probe
        if not probe:
            continue
        is_outdated = isinstance(find_failure(measurement, machine, size), Outdated)
        if is_outdated or not machine.probe(probe) or machine.other_machine(probe):
            missing[probe] = None
    names = list_names(claims)
    if names:
        is_foreign = not machine.probe(NAMES) or machine.other_machine(NAMES)
        if is_foreign or not machine.looked_up(names):
            missing[NAMES] = None
    return list(missing)


def find_missing_plans(measurements: Sequence[Measurement], machine: MachineResults) -> list[Case]:
    """Return the cases that were not planned."""
    cases = dict.fromkeys(case for one in measurements for case in one.measure.planned_cases())
    return [case for case in cases if machine.plan(case) is None]


def group_by_workload(cases: Iterable[Case]) -> list[Case]:
    """Return the cases with those of one workload, framework and scenario together."""
    groups: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.workload, case.framework, case.scenario), []).append(case)
    return [case for group in groups.values() for case in group]
