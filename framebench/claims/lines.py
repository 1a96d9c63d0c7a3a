"""A measurement as a line of the ledger: its number and verdict, or why it has none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from framebench.claims.claim import Claim, Measurement
from framebench.claims.entries import Line
from framebench.claims.measures import (
    DoesNotRun,
    Measure,
    OfCases,
    Planned,
    PlannedReport,
    is_ratio,
)
from framebench.claims.needs import Conditions
from framebench.claims.plans import GPU, find_report
from framebench.claims.rule import (
    DOES_NOT_RUN,
    NOT_MEASURED,
    UNMET,
    Effect,
    NoNumber,
    decide,
    find_sign,
    list_open_verdicts,
)
from framebench.claims.samples import ADDED, PEAK, RESERVED, TIME
from framebench.claims.store import MachineResults, device_of
from framebench.records.record import Provenance
from framebench.suite.case import FULL_SIZE, Case

# what a plan calls what is measured
AS_PLANNED = {PEAK.name: "peak", RESERVED.name: "peak", ADDED.name: "added"}


def applies(measurement: Measurement, size: str) -> bool:
    """Return whether a size has the batches that a measurement needs."""
    measure = measurement.measure
    return measure.is_planned or bool(measure.probe or measure.cases(size))


def make_line(claim: Claim, measurement: Measurement, machine: MachineResults, size: str) -> Line:
    """Return the measurement's effect and verdict; without records, what is missing.

    Where the claim's precondition is not met, its number is shown and decides nothing.
    """
    here = find_conditions(measurement.measure, machine, size)
    line = replace(judge(claim, measurement, machine, size), device=here.device)
    unmet = ""
    if line.decides:
        unmet = claim.needs.describe_unmet(here)
    if (
        not unmet
        and machine.is_cpu_only
        and any(Case.from_id(case).support.gpu for case in line.missing)
    ):
        unmet = "needs a GPU"
    return replace(line, verdict=UNMET, remark=unmet) if unmet else line


def find_conditions(measure: Measure, machine: MachineResults, size: str) -> Conditions:
    """Return the conditions under which a number came about, or would."""
    if measure.is_planned:
        return Conditions(FULL_SIZE, "gpu", gpu=GPU)
    cases = measure.cases(size)
    origins = [record.provenance for case in cases for record in machine.records(case)]
    probed = machine.probe(measure.probe) if measure.probe else None
    if probed:
        origins.append(probed.provenance)
    gpus = [origin.hardware["device"] for origin in origins if device_of(origin) == "gpu"]
    would_need_gpu = (
        not origins and not machine.is_cpu_only and any(case.support.gpu for case in cases)
    )
    return Conditions(
        size=cases[0].size if cases else "",
        device="gpu" if gpus or would_need_gpu else "cpu",
        cpu_flags=find_cpu_flags(origins),
        gpu=str(gpus[0]) if gpus else "",
    )


def find_cpu_flags(origins: Sequence[Provenance]) -> frozenset[str] | None:
    """Return the processors' instructions for bfloat16, which alone are recorded.

    None where one does not tell.
    """
    flags = [
        frozenset(origin.hardware["bfloat16"])
        for origin in origins
        if "bfloat16" in origin.hardware
    ]
    if not flags or len(flags) < len(origins):
        return None
    return frozenset.intersection(*flags)


def judge(claim: Claim, measurement: Measurement, machine: MachineResults, size: str) -> Line:
    """Return a measurement judged by its numbers alone."""
    measure, target = measurement.measure, measurement.target
    cases = measure.planned_cases() if measure.is_planned else measure.cases(size)
    missing = [] if measure.is_planned else [case for case in cases if not machine.records(case)]
    failures = {case.id: machine.failure(case) for case in missing}
    name = f"{measurement.name} {measure.describe_place(size)}".strip()
    blank = Line(
        id=f"{claim.name}/{name}",
        name=name,
        arm=measurement.name,
        decides=measurement in claim.deciding or stands_for_plan(measure, claim.deciding, size),
        verdict=NOT_MEASURED,
        form=measure.form,
        metric=measure.metric,
        null=target.null,
        claimed=target.value,
        ours=target.ours,
        planned=measure.is_planned,
        elsewhere=machine.other_machine(measure.probe),
        unlike="" if missing else machine.describe_options(measure.cases(size)),
        cases=tuple(case.id for case in cases),
        missing=tuple(failures),
        tried=any(failures.values()),
        remark="; ".join(f"{case}: {failure}" for case, failure in failures.items() if failure),
        records=tuple(list_files(measure, machine, [] if missing else cases)),
    )
    if missing:
        return blank
    wrong = [case.id for case in measure.planned_cases() if machine.is_wrong_everywhere(case)]
    if wrong:
        reason = f"wrong wherever this step ran, so that a plan decides nothing: {', '.join(wrong)}"
        return replace(blank, tried=True, remark=reason)
    idle = [case.id for case in cases if not measure.is_planned and not machine.is_proven(case)]
    if idle:
        return replace(
            blank, tried=True, remark=f"the strategy was not seen at work in {', '.join(idle)}"
        )
    try:
        return judge_reserved(blank, measurement, machine, size) or with_effect(
            blank, measure.effect(machine, size), measurement
        )
    except DoesNotRun as error:
        return replace(blank, verdict=DOES_NOT_RUN, remark=f"{name}: {error}")
    except NoNumber as reason:
        return replace(blank, remark=str(reason))


def list_files(measure: Measure, machine: MachineResults, cases: Sequence[Case]) -> list[str]:
    """Return the files behind a measurement, relative to the results folder."""
    if not measure.is_planned:
        is_timed = isinstance(measure, OfCases) and measure.quantity is TIME
        return machine.files(cases, measure.probe, is_timed)
    if isinstance(measure, PlannedReport):
        files = [find_report(machine.results.root, measure.release)]
    else:
        plans = [machine.plan(case) for case in cases]
        files = [plan.file for plan in plans if plan]
    return [machine.relative(file) for file in files if file.exists()]


def stands_for_plan(measure: Measure, deciding: Sequence[Measurement], size: str) -> bool:
    """Return whether it measures what a deciding measurement has planned.

    That is the very same cases and quantity. Then it decides what the plan does.
    """
    if not is_ratio(measure) or measure.quantity.name not in AS_PLANNED:
        return False
    quantity, cases = AS_PLANNED[measure.quantity.name], measure.cases(size)
    plans = [
        one.measure
        for one in deciding
        if isinstance(one.measure, Planned) and not one.measure.is_growth
    ]
    return any(plan.quantity == quantity and plan.planned_cases() == cases for plan in plans)


def judge_reserved(
    blank: Line, measurement: Measurement, machine: MachineResults, size: str
) -> Line | None:
    """Return a GPU's peak by what is reserved, in every framework: that must fit.

    What is allocated is also shown. None elsewhere.
    """
    measure = measurement.measure
    if not is_ratio(measure) or measure.quantity is not PEAK:
        return None
    if find_conditions(measure, machine, size).device == "cpu":
        return None
    try:
        reserved = replace(measure, quantity=RESERVED).effect(machine, size)
    except NoNumber:
        return None
    allocated = with_effect(blank, measure.effect(machine, size), measurement)
    return replace(
        with_effect(blank, reserved, measurement), also=f"reserved; allocated: {allocated.measured}"
    )


def with_effect(blank: Line, effect: Effect, measurement: Measurement) -> Line:
    """Return a line with its number and verdict."""
    target = measurement.target
    return replace(
        blank,
        verdict=decide(effect, target),
        value=effect.value,
        low=effect.low if math.isfinite(effect.low) else None,
        high=effect.high if math.isfinite(effect.high) else None,
        sign=find_sign(effect, target),
        left=list_open_verdicts(effect, target),
    )


def let_gpus_decide(claim: Claim, lines: Sequence[Line]) -> list[Line]:
    """Return the lines with a CPU's set aside where its result does not hold on a GPU.

    That needs a GPU's line with a number that decides, measured or planned, be it undecided.
    """
    has_gpu = any(line.counts and line.device == "gpu" and line.value is not None for line in lines)
    if claim.transfers_to_gpu or not has_gpu:
        return list(lines)
    kept = []
    for line in lines:
        is_aside = line.decides and line.device == "cpu"
        kept.append(replace(line, decides=False, aside=True) if is_aside else line)
    return kept


def add_gpu_lines(
    claim: Claim, lines: Sequence[Line], gpus: Iterable[MachineResults]
) -> list[Line]:
    """Return the lines with those that machines with a GPU have measured behind them.

    At full size a measurement decides in place of a plan of the same two cases, whatever the plan's
    batch.
    """
    measured: list[Line] = []
    for gpu in gpus:
        for measurement in claim.measurements:
            if gpu.has_all(measurement.measure.cases(FULL_SIZE)):
                line = make_line(claim, measurement, gpu, FULL_SIZE)
                named = f"{line.name}, {gpu.machine}"
                if line.value is not None:
                    measured.append(
                        replace(
                            line, id=f"{line.id}, {gpu.machine}", name=named, elsewhere=gpu.machine
                        )
                    )
    replaced = {compared_cases(line) for line in measured if line.decides}
    kept = []
    for line in lines:
        is_replaced = line.planned and compared_cases(line) in replaced
        kept.append(replace(line, decides=False) if is_replaced else line)
    return kept + measured


def compared_cases(line: Line) -> tuple[object, ...]:
    """Return what is compared, and in which two cases but for their batch."""
    cases = [Case.from_id(case) for case in line.cases]
    return line.metric, *(
        (case.workload, case.framework, case.scenario, case.strategy) for case in cases
    )
