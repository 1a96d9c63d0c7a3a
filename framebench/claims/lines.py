"""A measurement as a line of the ledger: its number and verdict, or why it has none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from framebench.claims.claim import Claim, Measurement
from framebench.claims.measures import (
    CaseMeasure,
    DoesNotRun,
    Measure,
    ProgramMeasure,
    choose_peak,
)
from framebench.claims.numbers import format_effect
from framebench.claims.preconditions import Conditions
from framebench.claims.rule import (
    DOES_NOT_RUN,
    NOT_MEASURED,
    UNMET,
    Effect,
    NoNumber,
    Sign,
    Target,
    Verdict,
    decide,
    find_sign,
    list_open_verdicts,
)
from framebench.claims.store import MachineResults, get_device
from framebench.records.record_parts import Provenance
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import DEFAULT_SIZE, FULL_SIZE, Case

TABLE_INSTRUMENT = "host.rss"  # reads the peaks that tables compare on a CPU
PLACE = re.compile(rf"\w+/({'|'.join(FRAMEWORKS)})\b")


@dataclass(frozen=True)
class Line:
    """One measurement of a claim.

    Numbers are in the unit of its measure. They are None without a measurement, `low` and `high`
    also without an interval. The fields have the names that `--json` prints.
    """

    id: str  # B2 memory/transformer/torch b4/cpu
    name: str  # of the measurement, and where
    measurement: str  # only its name
    decides: bool  # or is informational
    verdict: Verdict
    form: str
    metric: str  # measurements of one metric may be summed up
    null: float  # the number if there is no effect
    value: float | None = None
    low: float | None = None
    high: float | None = None
    sign: Sign = "unclear"
    left: tuple[Verdict, ...] = ()  # the verdicts that the interval leaves open
    claimed: float | None = None
    ours: bool = False  # the claimed size is this suite's, of no article
    planned: bool = False  # or measured
    device: str = "cpu"  # that it was measured on, or planned for
    set_aside: bool = False  # it would decide if a GPU's lines did not
    other_machine: str = ""  # the machine of its program, or the GPU, where that is another one
    cases: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # cases without records that nobody has tried
    was_tried: bool = False  # and has no number: repeated it would have none
    also: str = ""  # the instrument, and what another of the same records says
    remark: str = ""  # why there is no number, or what precondition is not met
    records: tuple[str, ...] = ()

    @property
    def measured(self) -> str:
        """Return the number with its interval."""
        return format_effect(self.value, self.low, self.high, self.form)

    @property
    def number(self) -> str:
        """Return the number with its interval, and which instrument read it."""
        return f"{self.measured} {self.also}".strip()

    @property
    def place(self) -> str:
        """Return workload and framework, such as `unet3d/jax`, or "" for other programs."""
        found = PLACE.search(self.measurement)
        if found is None:
            return ""
        return found[0]

    @property
    def label(self) -> str:
        """Return the measurement's name without its workload and framework."""
        return " ".join(self.measurement.replace(self.place, "", 1).split())

    @property
    def frameworks(self) -> set[str]:
        """Return the frameworks of its cases; empty for a program."""
        return {Case.from_id(case).framework for case in self.cases}

    @property
    def subjects(self) -> set[str]:
        """Return the workloads and the frameworks of its cases."""
        return self.frameworks | {Case.from_id(case).workload for case in self.cases}

    @property
    def on_other_gpu(self) -> bool:
        """Return whether another machine's GPU has measured it."""
        return bool(self.other_machine and self.cases)

    @property
    def is_bounded(self) -> bool:
        """Return whether it has an interval."""
        return self.low is not None and self.high is not None

    @property
    def counts(self) -> bool:
        """Return whether the verdict uses it: it decides, and its precondition is met."""
        return self.decides and self.verdict != UNMET


def applies(measurement: Measurement, size: str) -> bool:
    """Return whether a size has the batches that a measurement needs."""
    measure = measurement.measure
    return measure.is_planned or bool(measure.probe or measure.list_cases(size))


def make_line(claim: Claim, measurement: Measurement, machine: MachineResults, size: str) -> Line:
    """Return a measurement as a line with its number and verdict, or with the missing cases.

    If the claim's precondition is not met, the line has its number, and the verdict UNMET.
    """
    measure, target = measurement.measure, measurement.target
    if claim.needs.cpu_flag:
        machine = machine.prefer_processor(claim.needs.cpu_flag)
    cases = measure.list_planned_cases() or measure.list_cases(size)
    here = find_conditions(measure, machine, size)
    name = f"{measurement.name} {measure.describe_place(size)}".strip()
    line = Line(
        id=f"{claim.name}/{name}",
        name=name,
        measurement=measurement.name,
        decides=measurement in claim.deciding,
        verdict=NOT_MEASURED,
        form=measure.form,
        metric=measure.metric,
        null=target.null,
        claimed=target.value,
        ours=target.ours,
        planned=measure.is_planned,
        device=here.device,
        other_machine=machine.find_other_machine(measure.probe),
        cases=tuple(case.id for case in cases),
    )
    # the number is shown whether it may decide or not
    line = add_number(line, measure, target, machine, size)
    unmet = claim.needs.describe_unmet(here)
    if line.decides and unmet:
        return replace(line, verdict=UNMET, remark=unmet)
    if claim.needs.cpu_flag and line.other_machine:
        line = replace(line, also=f"on {line.other_machine}")
    return line


def add_number(
    line: Line, measure: Measure, target: Target, machine: MachineResults, size: str
) -> Line:
    """Return a line with its number, verdict and files, or with why it has none."""
    failures, missing = [], []
    for case in measure.list_cases(size):
        if not measure.select_records(machine, case):
            failure = machine.describe_failure(case)
            if failure:
                failures.append(f"{case.id}: {failure}")
            else:
                missing.append(case.id)
    if failures or missing:
        remark = "; ".join(failures)
        return replace(line, missing=tuple(missing), was_tried=bool(failures), remark=remark)
    line = replace(line, records=tuple(measure.list_files(machine, size)))
    try:
        check_usable(line, measure, machine)
        judged_measure = choose_peak(measure, line.device)
        effect = judged_measure.compute_effect(machine, size)
        if judged_measure is not measure:  # a GPU's peak is judged by its reserved bytes
            allocated = format_effect(*measure.compute_effect(machine, size), measure.form)
            line = replace(line, also=f"reserved; allocated: {allocated}")
        elif line.device == "cpu":
            instrument = measure.find_instrument(machine, size)
            if instrument not in ("", TABLE_INSTRUMENT):
                line = replace(line, also=f"by {instrument}")
    except DoesNotRun as error:
        return replace(line, verdict=DOES_NOT_RUN, remark=f"{line.name}: {error}")
    except NoNumber as error:
        return replace(line, remark=str(error))
    return add_effect(line, effect, target)


def add_effect(line: Line, effect: Effect, target: Target) -> Line:
    """Return a line with its number and verdict."""
    line = replace(
        line,
        verdict=decide(effect, target),
        value=effect.value,
        sign=find_sign(effect, target),
        left=list_open_verdicts(effect, target),
    )
    if math.isinf(effect.low) or math.isinf(effect.high):  # JSON has no infinite numbers
        return line
    return replace(line, low=effect.low, high=effect.high)


def check_usable(line: Line, measure: Measure, machine: MachineResults) -> None:
    """Raise NoNumber for a plan of a wrong step, and if a strategy's effect is not confirmed.

    A count from the evidence of an effect needs no confirmed effect: a count that refutes the
    effect would otherwise never be shown.
    """
    is_evidence = isinstance(measure, CaseMeasure) and measure.quantity.is_evidence
    for case_id in line.cases:
        case = Case.from_id(case_id)
        # if the step were right, it would need other memory
        if line.planned and machine.is_wrong_everywhere(case):
            raise NoNumber(
                f"wrong wherever this step ran, so that a plan decides nothing: {case_id}"
            )
        if not line.planned and not is_evidence and not machine.is_proven(case):
            raise NoNumber(f"the strategy's effect is not confirmed in {case_id}")


def find_conditions(measure: Measure, machine: MachineResults, size: str) -> Conditions:
    """Return the conditions under which a number was measured, or would be."""
    if measure.is_planned:
        return Conditions(FULL_SIZE, "gpu")
    cases = measure.list_cases(size)
    provenances = []
    for case in cases:
        provenances += [record.provenance for record in machine.get_records(case)]
    probed = machine.get_probe(measure.probe) if isinstance(measure, ProgramMeasure) else None
    if probed:
        provenances.append(probed.provenance)
    is_on_gpu = any(get_device(provenance) == "gpu" for provenance in provenances)
    if not provenances and not machine.is_cpu_only:  # not measured yet: it would be on the GPU
        is_on_gpu = bool(cases)
    return Conditions(
        size=cases[0].size if cases else "",
        device="gpu" if is_on_gpu else "cpu",
        cpu_flags=find_cpu_flags(provenances),
    )


def find_cpu_flags(provenances: Sequence[Provenance]) -> frozenset[str] | None:
    """Return the instructions for bfloat16 that all these processors have, such as `amx_bf16`.

    Returns None if there is no record, or if one does not list them. Records list no other kinds of
    instructions.
    """
    flags = []
    for provenance in provenances:
        if "bfloat16" not in provenance.hardware:
            return None
        flags.append(frozenset(provenance.hardware["bfloat16"]))
    if not flags:
        return None
    return frozenset.intersection(*flags)


def let_gpus_decide(lines: Sequence[Line]) -> list[Line]:
    """Return the lines; those of a CPU no longer decide if any of a GPU has a number.

    The GPU's number may be measured or planned, and may be undecided: articles speak of a GPU's
    memory, for which a CPU's number is no answer.
    """
    if not any(line.counts and line.device == "gpu" and line.value is not None for line in lines):
        return list(lines)
    changed = []
    for line in lines:
        if line.decides and (line.device == "cpu" or is_missing_at_default_size(line)):
            line = replace(line, decides=False, set_aside=True)
        changed.append(line)
    return changed


def is_missing_at_default_size(line: Line) -> bool:
    """Return whether a line has no number and compares cases at the size that CPUs measure."""
    is_default_size = any(case.endswith(f"/{DEFAULT_SIZE}") for case in line.cases)
    return is_default_size and not line.planned and line.value is None


def add_gpu_lines(
    claim: Claim, lines: Sequence[Line], gpus: Iterable[MachineResults], here: str
) -> list[Line]:
    """Return the lines, followed by those that machines with a GPU have measured at full size.

    A plan of cases that a GPU has measured no longer decides, whatever its batch. `here` is the
    machine of the ledger, which may itself be one of those with a GPU.
    """
    measured = []
    for gpu in gpus:
        for measurement in claim.measurements:
            if not gpu.has_all(measurement.measure.list_cases(FULL_SIZE)):
                continue
            line = make_line(claim, measurement, gpu, FULL_SIZE)
            if line.value is not None:
                if gpu.machine != here:
                    name = f"{line.name}, {gpu.machine}"
                    line = replace(line, name=name, id=f"{claim.name}/{name}")
                    line = replace(line, other_machine=gpu.machine)
                measured.append(line)
    # a measurement is worth more than its prediction
    measured_comparisons = {get_comparison(line) for line in measured if line.decides}
    own_lines = []
    for line in lines:
        if line.planned and get_comparison(line) in measured_comparisons:
            line = replace(line, decides=False)
        own_lines.append(line)
    return own_lines + measured


def get_comparison(line: Line) -> tuple[str, ...]:
    """Return the metric, and the compared cases without their batch and size."""
    return line.metric, *(case.rsplit("/", 2)[0] for case in line.cases)
