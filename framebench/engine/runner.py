"""The two halves of a case, time and memory, each by a process of its own, and how they are joined into a record.

The processes for the time are alive together and take turns: `blocks.py`.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from framebench.engine.environments import Environment
from framebench.engine.supervisor import Outcome, Worker
from framebench.instruments import nvml
from framebench.instruments.host import MALLOC_ENV
from framebench.instruments.nvml import ProcessPeak
from framebench.models.spec import OWN
from framebench.records import provenance, store
from framebench.records.record import Compared, Proof, Provenance, Record, Status, Verification
from framebench.records.record import Mathematics as RecordedMathematics
from framebench.suite import profiles
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION, Mathematics, Reference, Task

RESULTS = provenance.ROOT / "results"


@dataclass(frozen=True)
class Options:
    """How to measure. `threads=1` on a pinned core is the calmest that a shared machine offers; both are recorded."""

    threads: int = 1
    pin: bool = True
    rounds: int = 8  # of each block
    time_limit_s: float = 900.0  # for each of a case's two workers; one whose steps would take longer altogether ends at once
    memory_limit: int | None = None  # bytes
    profile: str | None = None  # that the case is measured as part of
    peaks_each_block: bool = False  # else once in a session: peaks do not drift
    memory: bool = True  # else times alone, as a study of them needs
    first_alone: bool = True  # how long a first step takes is wanted to the per cent: nothing is built beside what compiles

    def task(
        self, case: Case, part: str, reference: Reference | None = None, built_on: int | None = None, spin: float = 0.0,
        extra: float = 0.0,
    ) -> Task:  # fmt: skip
        return Task(
            case.id, part, budget_s=self.time_limit_s, core=self.core() if part == "time" else None, built_on=built_on,
            memory_limit=self.memory_limit, reference=reference, spin=spin, extra=extra,
        )  # fmt: skip

    def on(self, environment: Environment) -> Options:
        """What launches to a card is not pinned: its compilers have many threads, and those that launch must not wait for each
        other."""
        return replace(self, pin=False) if environment.on_card else self

    def core(self) -> int | None:
        """The last core this process may use: the parent stays on the others."""
        return self.cores()[0]

    def cores(self) -> tuple[int | None, ...]:
        """The one that turns are made on, and others, as many as are of use, on which processes may be built and checked. On a
        card they would disturb each other's first steps."""
        if not self.pin or self.threads != 1 or not hasattr(os, "sched_getaffinity"):
            return (None,)
        at_once = AT_ONCE if not nvml.gpus() else 1 if self.rounds and self.first_alone else AT_ONCE_ON_CARD
        return tuple(sorted(os.sched_getaffinity(0), reverse=True)[:at_once])


AT_ONCE = 4  # processes: what they have in common, such as the disk, serves no more
AT_ONCE_ON_CARD = 12  # a card's minutes are dear, and each process waits for its imports and for CUDA
USUAL = Options()


def worker_variables(environment: Environment, case: Case, part: str, options: Options) -> dict[str, str]:
    """Everything that is set for the worker on top of the user's environment; goes into the record."""
    threads = str(options.threads)
    environment_variables = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    environment_variables |= environment.variables() | dict(case.support.env)
    if part == "memory":
        environment_variables |= MALLOC_ENV
    if case.workload == OWN and (folders := os.environ.get("PYTHONPATH")):
        environment_variables["PYTHONPATH"] = folders  # what the user's file may import
    return environment_variables


class Memory:
    """The process of its own that reads a case's peaks; as part `look` it verifies the case besides."""

    def __init__(
        self, case: Case, environment: Environment, options: Options, scratch: Path, extra: float = 0.0, part: str = "memory"
    ) -> None:
        self.started, self.options = time.monotonic(), options
        scratch.mkdir(parents=True, exist_ok=True)
        variables = worker_variables(environment, case, "memory", options) | environment.scratch(scratch)
        task = options.task(case, part, extra=extra)
        log = scratch / f"memory-{time.monotonic_ns()}.log"
        self.before = nvml.used() if len(options.cores()) == 1 else None
        self.worker = Worker(environment, "framebench.worker.worker", task.as_dict(), variables, log)
        self.watching = ExitStack()  # from its first moment: it may end while others are waited for
        self.device = self.watching.enter_context(ProcessPeak(self.worker.process.pid, self.before))

    def end(self, on_phase: Callable[[str], None]) -> Outcome:
        """What became of it. Never raises for a worker's fault."""
        with self.watching:
            outcome = self.worker.end(on_phase, self.options.time_limit_s)
        device = self.device
        outcome.seconds = time.monotonic() - self.started
        outcome.on_device = {n: b for n, b in (("device.process", device.peak), ("device.card", device.risen)) if b is not None}
        outcome.device_note = device.note
        return outcome

    def kill(self) -> None:
        self.worker.kill()
        self.watching.close()


def unsupported(case: Case) -> str | None:
    """Say why the case cannot be measured here, if it cannot."""
    if not case.support.supported:
        return case.support.why
    if case.support.gpu and not nvml.gpus():
        return f"needs a GPU, which this machine does not have: {case.support.why}"
    return without_reference(case)


def without_reference(case: Case) -> str | None:
    """Say why nothing tells whether a combination comes out right, if so.

    Its strategies change the mathematics, and the values of all of them together were never computed.
    """
    plan = case.plan
    if len(plan.parts) == 1 or case.workload == OWN or case.size in case.spec.without_golden:
        return None
    if case.golden_key in case.spec.golden:
        return None
    together = plan.name.replace("+", " and ")
    return f"golden.json has no values for {together} together ({case.golden_key})"


def too_slow(case: Case) -> str | None:
    """Why a case takes longer than it may, where the processor tells."""
    if case.plan.precision == "bf16" and not nvml.gpus() and provenance.bfloat16_instructions() == set():
        return "no bfloat16 units here: the processor computes bfloat16 by way of float32, at a fraction of the speed"
    return None


def expected(record: Record) -> bool:
    """Whether a case without numbers could have had none on this machine: the processor has no units for it, or the framework
    computes it wrong by itself."""
    has_known_fault = record.verification is not None and record.verification.known_fault
    return (record.status == "wrong" and has_known_fault) or (
        record.status == "timeout" and too_slow(record.parsed) is not None
    )


def limited(case: Case, options: Options) -> Options:
    """With the shorter limit that a first comparison has for what the processor is known to be slow at."""
    shorter = profiles.described(options.profile).slow_limit_s if options.profile and too_slow(case) else None
    return replace(options, time_limit_s=min(shorter, options.time_limit_s)) if shorter else options


MEMORY_FIELDS = ("peaks", "peak_samples", "cold_peaks", "live_bytes", "elsewhere", "library_bytes", "allocator")
TIME_FIELDS = ("first_step_s", "step_s", "device_step_s", "synced_step_s", "cpu_s_per_step", "instructions", "shares")
ENOUGH_S = 1.0  # of timed steps for an energy per step: the counter moves every 20 to 100 ms


def passed(outcome: Outcome) -> bool:
    return outcome.result.get("verification", {"passed": True})["passed"]


def join(outcomes: dict[str, Outcome], mathematics: Mathematics | None = None) -> tuple[dict[str, Any], Status, str | None]:
    """Return the halves as fields of a record, and the status that follows. A wrong result has no measurements."""
    timed, memory = (outcomes.get(part, Outcome()) for part in ("time", "memory"))
    halves = timed.result | memory.result
    fields: dict[str, Any] = {name: halves[name] for name in (*MEMORY_FIELDS, *TIME_FIELDS) if name in halves}
    if "cold_peaks" in fields:
        fields["cold_peaks"] = larger(timed.result.get("cold_peaks", {}), memory.result.get("cold_peaks", {}))
    if memory.on_device and "peaks" in fields:
        fields["peaks"] |= memory.on_device
        fields["allocator"] = fields.get("allocator", {}) | _beyond_the_pool(memory.result, max(memory.on_device.values()))
    if timed.joules is not None and halves.get("timed_s", 0) >= ENOUGH_S:
        fields["energy_j_per_step"] = timed.joules / halves["timed_steps"]
    if "effect" in halves:
        fields["effect"] = Proof(**halves["effect"])
    verification = verification_of(halves.get("verification"), mathematics)
    if verification is not None:
        fields["verification"] = verification
        if not verification.passed:
            reasons = filter(None, (verification.reason, worst(verification)))
            return {"verification": verification}, "wrong", "; ".join(dict.fromkeys(reasons))
    for part, outcome in outcomes.items():
        if outcome.status != "ok":
            where = "" if outcome.status == "unsupported" else f"{part} worker: "
            return fields, outcome.status, f"{where}{outcome.reason}"
    return fields, "ok", timed.reason


def verification_of(measured: dict[str, Any] | None, mathematics: Mathematics | None) -> Verification | None:
    """Join what the measured process verified with what float64 says of the strategy.

    Wrong mathematics needs no measured process to be wrong.
    """
    if mathematics is not None and not mathematics["passed"]:
        measured = (measured or {}) | {"passed": False, "reason": mathematics["reason"]}
    if measured is None:
        return None
    joined = finite(measured)
    if mathematics is not None:
        joined |= {"mathematics": RecordedMathematics(**mathematics)}
    return Verification(**joined)


def larger(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """By instrument. The time worker's first step compiles and tunes, the memory worker's finds that done."""
    return {name: max(d[name] for d in (one, other) if name in d) for name in (*other, *(n for n in one if n not in other))}


def _beyond_the_pool(memory: dict[str, Any], process: int) -> dict[str, int]:
    """Bytes of the process that are not the pool's at its largest: CUDA context, kernels, libraries' own workspaces."""
    pools = (memory.get(name, {}).get("allocator.reserved") for name in ("peaks", "cold_peaks"))
    pool = max((p for p in pools if p is not None), default=None)
    return {} if pool is None or pool > process else {"context_bytes": process - pool}


def finite(tree: Any) -> Any:
    """NaN and infinity as None, at any depth: they are no numbers, and JSON has none."""
    if isinstance(tree, dict):
        return {name: finite(value) for name, value in tree.items()}
    return None if isinstance(tree, float) and not math.isfinite(tree) else tree


def worst(verification: Verification) -> str:
    """What failed, in words."""
    again = verification.again
    if again is not None and not again.passed:
        return "after the timed steps: " + (again.reason or "; ".join(beyond(again.tensors) or ["the loss differs"]))
    failed = [
        f"{name} {verification.observed[name]} instead of {verification.golden[name]} "
        f"(relative error {error if error is None else format(error, '.1e')}, tolerance {verification.tolerance[name]:.1e})"
        for name, error in verification.relative_error.items()
        if error is None or error > verification.tolerance[name]
    ]
    return "; ".join(failed + beyond(verification.tensors))


def beyond(tensors: dict[str, Compared]) -> list[str]:
    """The kinds of tensors with any beyond their tolerance."""
    return [
        f"{kind}: {c.failed} of {c.count} tensors are off, {c.worst} most "
        f"({c.by}: relative error {c.error if c.error is None else format(c.error, '.1e')}, tolerance {c.tolerance:.1e})"
        for kind, c in tensors.items()
        if c.failed
    ]


def spent(outcomes: dict[str, Outcome]) -> dict[str, float]:
    """Where the time went: import, build and work of the two workers, and `harness`: everything else. What a worker waited for
    its turns is in none."""
    seconds_by_part = {
        f"{part}_{name}": o.result[f"{name}_s"]
        for part, o in outcomes.items()
        for name in ("import", "build", "work")
        if f"{name}_s" in o.result
    }
    total = sum(o.seconds for o in outcomes.values())
    return seconds_by_part | {"harness": total - sum(seconds_by_part.values()), "total": total}


def load_average() -> float | None:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def provenance_of(
    case: Case,
    session: str,
    environment: Environment,
    options: Options,
    load: float | None,
    outcomes: dict[str, Outcome],
    results: Path,
    card: dict[str, Any] | None = None,
    planted: dict[str, float] | None = None,
) -> Provenance:
    result = next((o.result for o in outcomes.values() if "device" in o.result), {})
    variables = worker_variables(environment, case, "memory", options) if outcomes else {}
    return Provenance(
        session=session,
        measured_at=datetime.now(UTC),
        command=provenance.command(),
        commit=provenance.commit(),
        dirty=provenance.dirty(),
        machine=provenance.machine_name(),
        hardware=provenance.hardware() | gpus() | ({"device": result["device"]} if result else {}),
        python=result.get("python", platform.python_version()),
        versions=result.get("versions", {environment.framework: environment.version}),
        environment={k: v for k, v in variables.items() if k not in ("HOME", "PYTHONPATH")},
        threads=options.threads,
        core=result.get("core", options.on(environment).core()),
        load_before=load,
        load_after=load_average(),
        profile=options.profile,
        memory_limit=options.memory_limit,
        planted=planted or {},
        calibration=store.calibration(results),
        gpu=around(card, outcomes) if card else {},
        protocol=VERSION,
    )


def gpus() -> dict[str, list[str]]:
    """Said of the machine in every record, also where no worker came as far as its device."""
    return {"gpus": list(nvml.gpus())} if nvml.gpus() else {}


def around(before: dict[str, Any], outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """The card before and after the case, and why a figure is missing."""
    note = next((o.device_note for o in outcomes.values() if o.device_note), None)
    return {"before": before, "after": nvml.state(), **({"device.process": note} if note else {})}
