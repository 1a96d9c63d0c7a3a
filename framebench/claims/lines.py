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
    unmet = claim.needs.describe_unmet(here) if line.decides else ""
    if not unmet and machine.is_cpu_only and needs_gpu(line.missing):
        unmet = "needs a GPU"
    return replace(line, verdict=UNMET, remark=unmet) if unmet else line


def needs_gpu(case_ids: Iterable[str]) -> bool:
    """Return whether one of these cases exists on a GPU only."""
    return any(Case.from_id(case_id).support.gpu for case_id in case_ids)


def find_conditions(measure: Measure, machine: MachineResults, size: str) -> Conditions:
    """Return the conditions under which a number came about, or would."""
    if measure.is_planned:
        return Conditions(FULL_SIZE, "gpu", gpu=GPU)
    cases = measure.cases(size)
    origins = []
    for case in cases:
        origins += [record.provenance for record in machine.records(case)]
    probed = machine.probe(measure.probe) if measure.probe else None
    if probed:
        origins.append(probed.provenance)
    gpu = ""
    for origin in origins:
        if device_of(origin) == "gpu":
            gpu = gpu or str(origin.hardware["device"])
    is_on_gpu = bool(gpu)
    if not origins and not machine.is_cpu_only:  # nothing was measured: where would it be?
        is_on_gpu = bool(cases)
    return Conditions(
        size=cases[0].size if cases else "",
        device="gpu" if is_on_gpu else "cpu",
        cpu_flags=find_cpu_flags(origins),
        gpu=gpu,
    )


def find_cpu_flags(origins: Sequence[Provenance]) -> frozenset[str] | None:
    """Return the processors' instructions for bfloat16, which alone are recorded.

    None where one does not tell.
    """
    flags = []
    for origin in origins:
        if "bfloat16" not in origin.hardware:
            return None
        flags.append(frozenset(origin.hardware["bfloat16"]))
    return frozenset.intersection(*flags) if flags else None


def judge(claim: Claim, measurement: Measurement, machine: MachineResults, size: str) -> Line:
    """Return a measurement judged by its numbers alone."""
    line = make_blank_line(claim, measurement, machine, size)
    if line.missing:
        return line
    reason = explain_unusable(line, machine)
    if reason:
        return replace(line, was_tried=True, remark=reason)
    try:
        reserved = judge_reserved(line, measurement, machine, size)
        return reserved or with_effect(line, measurement.measure.effect(machine, size), measurement)
    except DoesNotRun as error:
        return replace(line, verdict=DOES_NOT_RUN, remark=f"{line.name}: {error}")
    except NoNumber as error:
        return replace(line, remark=str(error))


def make_blank_line(
    claim: Claim, measurement: Measurement, machine: MachineResults, size: str
) -> Line:
    """Return a line without number and verdict: its cases, and which of them have no records."""
    measure, target = measurement.measure, measurement.target
    cases = measure.planned_cases() if measure.is_planned else measure.cases(size)
    missing = {}  # by case the status of a record that failed; empty if there is none
    if not measure.is_planned:
        for case in cases:
            if not machine.records(case):
                missing[case.id] = machine.failure(case)
    failures = [f"{case}: {failure}" for case, failure in missing.items() if failure]
    name = f"{measurement.name} {measure.describe_place(size)}".strip()
    return Line(
        id=f"{claim.name}/{name}",
        name=name,
        measurement=measurement.name,
        decides=measurement in claim.deciding or stands_for_plan(measure, claim.deciding, size),
        verdict=NOT_MEASURED,
        form=measure.form,
        metric=measure.metric,
        null=target.null,
        claimed=target.value,
        ours=target.ours,
        planned=measure.is_planned,
        other_machine=machine.other_machine(measure.probe),
        compiled_with="" if missing else machine.describe_options(measure.cases(size)),
        cases=tuple(case.id for case in cases),
        missing=tuple(missing),
        was_tried=bool(failures),
        remark="; ".join(failures),
        records=tuple(list_files(measure, machine, [] if missing else cases)),
    )


def explain_unusable(line: Line, machine: MachineResults) -> str:
    """Return why records or plans that are there give no number; empty if they do."""
    cases = [Case.from_id(case) for case in line.cases]
    if line.planned:
        wrong = [case.id for case in cases if machine.is_wrong_everywhere(case)]
        if wrong:
            return f"wrong wherever this step ran, so that a plan decides nothing: {join(wrong)}"
        return ""
    unproven = [case.id for case in cases if not machine.is_proven(case)]
    return f"the strategy's effect is not confirmed in {join(unproven)}" if unproven else ""


def join(names: Iterable[str]) -> str:
    """Return names with commas between them."""
    return ", ".join(names)


def list_files(measure: Measure, machine: MachineResults, cases: Sequence[Case]) -> list[str]:
    """Return the files behind a measurement, relative to the results folder."""
    if not measure.is_planned:
        is_timed = isinstance(measure, OfCases) and measure.quantity is TIME
        return machine.files(cases, measure.probe, is_timed)
    if isinstance(measure, PlannedReport):
        files = [find_report(machine.results.root, measure.release)]
    else:
        files = []
        for case in cases:
            plan = machine.plan(case)
            if plan:
                files.append(plan.file)
    return [machine.relative(file) for file in files if file.exists()]


def stands_for_plan(measure: Measure, deciding: Sequence[Measurement], size: str) -> bool:
    """Return whether it measures what a deciding measurement has planned.

    That is the very same cases and quantity. Then it decides what the plan does.
    """
    if not is_ratio(measure) or measure.quantity.name not in AS_PLANNED:
        return False
    quantity = AS_PLANNED[measure.quantity.name]
    cases = measure.cases(size)
    for measurement in deciding:
        plan = measurement.measure
        if not isinstance(plan, Planned) or plan.is_growth:
            continue
        if plan.quantity == quantity and plan.planned_cases() == cases:
            return True
    return False


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


def with_effect(line: Line, effect: Effect, measurement: Measurement) -> Line:
    """Return a line with its number and verdict."""
    target = measurement.target
    has_interval = math.isfinite(effect.low) and math.isfinite(effect.high)
    return replace(
        line,
        verdict=decide(effect, target),
        value=effect.value,
        low=effect.low if has_interval else None,
        high=effect.high if has_interval else None,
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
    changed = []
    for line in lines:
        if line.decides and line.device == "cpu":
            line = replace(line, decides=False, set_aside=True)
        changed.append(line)
    return changed


def add_gpu_lines(
    claim: Claim, lines: Sequence[Line], gpus: Iterable[MachineResults]
) -> list[Line]:
    """Return the lines with those that machines with a GPU have measured behind them.

    At full size a measurement decides in place of a plan of the same two cases, whatever the plan's
    batch.
    """
    measured = []
    for gpu in gpus:
        measured += measure_on_gpu(claim, gpu)
    replaced = {compared_cases(line) for line in measured if line.decides}
    own = []
    for line in lines:
        if line.planned and compared_cases(line) in replaced:
            line = replace(line, decides=False)
        own.append(line)
    return own + measured


def measure_on_gpu(claim: Claim, gpu: MachineResults) -> list[Line]:
    """Return the lines of a claim that a machine with a GPU has numbers of, at full size."""
    lines = []
    for measurement in claim.measurements:
        if not gpu.has_all(measurement.measure.cases(FULL_SIZE)):
            continue
        line = make_line(claim, measurement, gpu, FULL_SIZE)
        if line.value is not None:
            line = replace(line, id=f"{line.id}, {gpu.machine}", name=f"{line.name}, {gpu.machine}")
            lines.append(replace(line, other_machine=gpu.machine))
    return lines


def compared_cases(line: Line) -> tuple[object, ...]:
    """Return what is compared, and in which two cases but for their batch."""
    cases = [Case.from_id(case) for case in line.cases]
    return line.metric, *(
        (case.workload, case.framework, case.scenario, case.strategy) for case in cases
    )
