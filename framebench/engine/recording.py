"""Make the record of a case from what its processes have measured.

The process for the times makes the record (`make_record`), and the process for the memory adds its
part to it (`add_memory`). A wrong result has no measurements.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from framebench.engine.environments import Environment
from framebench.engine.runner import (
    CaseOutcome,
    Options,
    explain_slowness,
    make_worker_variables,
    read_load_average,
)
from framebench.instruments import nvml
from framebench.records import provenance, store
from framebench.records.record import Record
from framebench.records.record_base import Status
from framebench.records.record_parts import Provenance, Turns
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION, Part
from framebench.suite.result import (
    Mathematics,
    MemoryResult,
    Origin,
    Result,
    TensorComparison,
    TimeResult,
    Verification,
)

Number = TypeVar("Number", int, float)

ENOUGH_S = 1.0  # of timed steps for an energy per step: the counter moves every 20 to 100 ms


@dataclass(frozen=True)
class Context:
    """The circumstances in which a case was measured."""

    case: Case
    environment: Environment
    options: Options
    session: str
    results: Path
    load_before: float | None = None
    planted: dict[str, float] | None = None


@dataclass(frozen=True)
class CaseVerdict:
    """The status of a record, its reason, and the verification that goes into it."""

    status: Status
    reason: str | None
    verification: Verification | None


def make_record(
    context: Context,
    outcome: CaseOutcome,
    mathematics: Mathematics | None = None,
    part: Part = "time",
    turns: Turns | None = None,
    has_first_step: bool = True,
) -> Record:
    """Return the record of a case from the result of one of its processes.

    Args:
        context: The circumstances.
        outcome: How the process ended, and its result.
        mathematics: The comparison of the strategy's step in float64, if there was one.
        part: What the process was for, which stands in reasons and in the keys of seconds.
        turns: The turns that it made in its block.
        has_first_step: Whether the time of its first step counts: the process was alone, and
            nothing was compiled before.
    """
    verdict = judge(outcome, mathematics, part, context.case)
    result = outcome.result
    if verdict.status == "wrong":
        result = Result(origin=result.origin, work_s=result.work_s)
    times = result.times or TimeResult()
    timed_turns = outcome.turns if verdict.status == "ok" else []
    energy_j_per_step = None
    if outcome.joules is not None and times.timed_s >= ENOUGH_S:
        energy_j_per_step = outcome.joules / times.timed_steps
    return Record(
        case=context.case.id,
        status=verdict.status,
        reason=verdict.reason,
        **describe_memory(result, outcome.device_peaks, times.cold_peaks),
        first_step_s=times.first_step_s if has_first_step else None,
        step_s=[turn["wall_s"] for turn in timed_turns],
        device_step_s=drop_missing(turn.get("device_s") for turn in timed_turns),
        synced_step_s=outcome.synced_s if verdict.status == "ok" else [],
        energy_j_per_step=energy_j_per_step,
        cpu_s_per_step=times.cpu_s_per_step,
        instructions=drop_missing(turn.get("instructions") for turn in timed_turns),
        shares=times.shares,
        turns=turns,
        spent_s=split_seconds(part, outcome),
        verification=verdict.verification,
        effect=result.effect,
        log_tail=outcome.log or None,
        provenance=make_provenance(context, result.origin, started=True, gpu=describe_gpu_states()),
    )


def make_wrong_record(context: Context, mathematics: Mathematics) -> Record:
    """Return the record of a case whose mathematics is wrong in float64.

    No process has to measure it.
    """
    verdict = judge(CaseOutcome(), mathematics, "time", context.case)
    return Record(
        case=context.case.id,
        status=verdict.status,
        reason=verdict.reason,
        verification=verdict.verification,
        spent_s={"harness": 0.0, "total": 0.0},
        provenance=make_provenance(context, None, started=False),
    )


def make_unsupported_record(context: Context, reason: str | None) -> Record:
    """Return the record of a case that this machine cannot measure."""
    where = make_provenance(context, None, started=False)
    return Record(case=context.case.id, status="unsupported", reason=reason, provenance=where)


def add_memory(record: Record, outcome: CaseOutcome) -> Record:
    """Return the record of the times, with the results of the process for the memory added.

    The record must be `ok`. Its status becomes that of the memory process; its verification stays.
    """
    verdict = judge(outcome, mathematics=None, part="memory", case=record.parsed)
    origin = record.provenance.model_copy(
        update={
            "measured_at": datetime.now(UTC),
            "load_after": read_load_average(),
            "gpu": describe_gpu_states(record.provenance.gpu.get("before"), outcome.device_note),
        }
    )
    return replace_fields(
        record,
        status=verdict.status,
        reason=record.reason if verdict.status == "ok" else verdict.reason,
        **describe_memory(outcome.result, outcome.device_peaks, record.cold_peaks),
        spent_s=join_seconds(record.spent_s, split_seconds("memory", outcome)),
        log_tail=record.log_tail or outcome.log or None,
        provenance=origin,
    )


def replace_fields(record: Record, **fields: Any) -> Record:
    """Return the record with other values in these fields; the values are validated."""
    return Record(**{**dict(record), **fields})


def describe_memory(
    result: Result, device_peaks: dict[str, int], cold_peaks: dict[str, int]
) -> dict[str, Any]:
    """Return the fields of a record about memory.

    For each instrument the larger cold peak counts. `cold_peaks` are those of the process for the
    time, whose first step compiles and tunes. In the process for the memory it may find both done.
    """
    memory = result.memory or MemoryResult(peaks={})
    largest = dict(memory.cold_peaks)
    for name, size in cold_peaks.items():
        largest[name] = max(size, largest.get(name, 0))
    # the fields of a `MemoryResult` have the names that they have in a record
    return {
        **vars(memory),
        "peaks": memory.peaks | device_peaks if memory.peaks else {},
        "cold_peaks": largest,
        "allocator": describe_allocator(memory, device_peaks),
    }


def judge(
    outcome: CaseOutcome, mathematics: Mathematics | None, part: Part, case: Case
) -> CaseVerdict:
    """Return the status of a case: how its process ended, and whether its result is right."""
    verification = join_verification(outcome.result.verification, mathematics)
    if verification is not None and not verification.passed:
        reasons = filter(
            None,
            [
                verification.reason,
                describe_worst(verification),
                describe_mathematics(verification.mathematics),
            ],
        )
        # the two reasons may be the same
        return CaseVerdict("wrong", "; ".join(dict.fromkeys(reasons)), verification)
    reason = outcome.reason
    if outcome.status not in ("ok", "unsupported"):
        reason = f"{part} worker: {reason}"
    if outcome.status == "timeout":
        slowness = explain_slowness(case)
        if slowness:
            reason = f"{reason}; {slowness}"
    return CaseVerdict(outcome.status, reason, verification)


def join_verification(
    measured: Verification | None, mathematics: Mathematics | None
) -> Verification | None:
    """Return the verification of the measured process, joined with the comparison in float64.

    Wrong mathematics fails the verification even without a measured process. Right mathematics
    alone is no verification: then None is returned.
    """
    if mathematics is None:
        return measured
    if not mathematics.passed:
        failed = measured or Verification(passed=False)
        return replace(failed, passed=False, reason=mathematics.reason, mathematics=mathematics)
    if measured is None:
        return None
    return replace(measured, mathematics=mathematics)


def drop_missing(values: Iterable[Number | None]) -> list[Number]:
    """Return the values that are not None."""
    return [value for value in values if value is not None]


def describe_allocator(memory: MemoryResult, device_peaks: dict[str, int]) -> dict[str, int]:
    """Return the allocator's counters, with the bytes of the process outside of the pool.

    These are the CUDA context, kernels, and libraries' own workspaces: the largest size of the
    process less the largest size of the pool, if both are known.
    """
    counters = dict(memory.allocator)
    peaks_by_step = (memory.peaks, memory.cold_peaks)
    pools = drop_missing(peaks.get("allocator.reserved") for peaks in peaks_by_step)
    if pools and device_peaks:
        outside_bytes = max(device_peaks.values()) - max(pools)
        if outside_bytes >= 0:
            counters["context_bytes"] = outside_bytes
    return counters


def describe_worst(verification: Verification) -> str:
    """Return in words which values and tensors failed."""
    again = verification.again
    if again is not None and not again.passed:
        failed = list(describe_failed_tensors(again.tensors)) or ["the loss differs"]
        return "after the timed steps: " + (again.reason or "; ".join(failed))
    return "; ".join(
        [*describe_failed_values(verification), *describe_failed_tensors(verification.tensors)]
    )


def describe_mathematics(mathematics: Mathematics | None) -> str:
    """Return in words that a step is right in float64, though not as it was measured.

    The text is empty if it is wrong there, too, or was not computed.
    """
    if mathematics is None or not mathematics.computed or not mathematics.passed:
        return ""
    return (
        "in float64 the strategy's first steps are right (relative error "
        f"{format_error(mathematics.error)})"
    )


def describe_failed_values(verification: Verification) -> Iterator[str]:
    """Yield a phrase for each value that is beyond its tolerance."""
    for name, error in verification.relative_error.items():
        tolerance = verification.tolerance[name]
        if error is not None and error <= tolerance:
            continue
        observed, golden = verification.observed[name], verification.golden[name]
        if observed is None:
            yield f"{name} is not finite instead of {golden}"
            continue
        errors = f"(relative error {format_error(error)}, tolerance {tolerance:.1e})"
        yield f"{name} {observed} instead of {golden} {errors}"


def describe_failed_tensors(tensors: dict[str, TensorComparison]) -> Iterator[str]:
    """Yield a phrase for each kind of tensors of which any is beyond its tolerance."""
    for kind, compared in tensors.items():
        if compared.failed:
            errors = (
                f"({compared.by}: relative error {format_error(compared.error)}, tolerance "
                f"{compared.tolerance:.1e})"
            )
            yield (
                f"{kind}: {compared.failed} of {compared.count} tensors are off, "
                f"{compared.worst} most {errors}"
            )


def format_error(error: float | None) -> str:
    """Return an error as text; None stands for an error that was not finite."""
    return "not finite" if error is None else f"{error:.1e}"


def split_seconds(part: Part, outcome: CaseOutcome) -> dict[str, float]:
    """Return the seconds of a process by purpose, as a record has them.

    The keys are `<part>_import`, `<part>_build` and `<part>_work`, as far as the process got, then
    `harness` for the remaining seconds, and `total`. Waiting for turns is in none of them.
    """
    seconds: dict[str, float] = {}
    origin = outcome.result.origin
    if origin is not None:
        seconds[f"{part}_import"] = origin.import_s or 0.0
        seconds[f"{part}_build"] = origin.build_s or 0.0
    if outcome.result.work_s is not None:
        seconds[f"{part}_work"] = outcome.result.work_s
    harness_s = outcome.seconds - sum(seconds.values())
    return seconds | {"harness": harness_s, "total": outcome.seconds}


def join_seconds(time_s: dict[str, float], memory_s: dict[str, float]) -> dict[str, float]:
    """Join the seconds of the two processes of a case, and add up `harness` and `total`."""
    joined = time_s | memory_s
    for name in ("harness", "total"):
        joined[name] = time_s[name] + memory_s[name]
    return joined


def make_provenance(
    context: Context, origin: Origin | None, started: bool, gpu: dict[str, Any] | None = None
) -> Provenance:
    """Return the circumstances that go into a record.

    `started` says whether a worker of the case was started.
    """
    environment, options = context.environment, context.options
    variables: dict[str, str] = {}
    if started:
        variables = make_worker_variables(environment, context.case, "memory", options)
    machine = provenance.read_machine_name()
    hardware = describe_hardware()
    if origin is not None:
        hardware["device"] = origin.device
    return Provenance(
        session=context.session,
        measured_at=datetime.now(UTC),
        command=provenance.describe_command(),
        commit=provenance.find_code(),
        dirty=provenance.is_dirty(),
        machine=machine,
        hardware=hardware,
        python=origin.python if origin else platform.python_version(),
        versions=origin.versions if origin else {environment.framework: environment.version},
        environment={
            name: value for name, value in variables.items() if name not in ("HOME", "PYTHONPATH")
        },
        threads=options.threads,
        core=origin.core if origin else options.adapt_to(environment).choose_core(),
        load_before=context.load_before,
        load_after=read_load_average(),
        profile=options.profile,
        memory_limit=options.memory_limit,
        planted=context.planted or {},
        calibration=store.read_calibration(context.results, machine),
        gpu=gpu or {},
        protocol=VERSION,
    )


def describe_hardware() -> dict[str, Any]:
    """Return the hardware that goes into a record.

    It includes the machine's GPUs, even if no worker used one before it failed.
    """
    hardware = dict(provenance.describe_hardware())
    if nvml.list_gpus():
        hardware["gpus"] = list(nvml.list_gpus())
    return hardware


def describe_gpu_states(
    before: dict[str, Any] | None = None, note: str | None = None
) -> dict[str, Any]:
    """Return the GPU's state before and after the case, and why a figure of it is missing.

    Without a GPU there are no fields.
    """
    state = nvml.read_state()
    if not state:
        return {}
    states: dict[str, Any] = {"before": before or state, "after": state}
    if note:
        states["device.process"] = note
    return states
