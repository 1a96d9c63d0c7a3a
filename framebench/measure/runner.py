"""Measure a case: two worker processes, one after the other, their halves joined into a record, whatever happens to them."""

from __future__ import annotations

import math
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from framebench.instruments import nvml
from framebench.instruments.host import MALLOC_ENV
from framebench.instruments.nvml import ProcessPeak
from framebench.measure import environments, references
from framebench.measure.environments import Environment
from framebench.measure.supervisor import Outcome, Worker, supervise
from framebench.records import provenance, store
from framebench.records.record import Compared, Proof, Provenance, Record, Status, Verification
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION, Reference, Task

RESULTS = provenance.ROOT / "results"
Progress = Callable[[str, str], None]  # part, phase


@dataclass(frozen=True)
class Options:
    """How to measure. `threads=1` on a pinned core is the calmest that a shared machine offers; both are recorded."""

    threads: int = 1
    pin: bool = True
    samples: int = 20
    min_samples: int = 3
    budget_s: float = 2.0
    time_limit_s: float = 900.0  # for each of the two workers
    memory_limit: int | None = None  # bytes
    profile: str | None = None  # that the case is measured as part of

    def task(self, case: Case, part: str, reference: Reference | None = None) -> Task:
        return Task(
            case.id, part, self.samples, self.min_samples, budget_s=self.budget_s, core=self.core() if part == "time" else None,
            memory_limit=self.memory_limit, reference=reference,
        )  # fmt: skip

    def core(self) -> int | None:
        """The last core this process may use: the parent stays on the others."""
        if not self.pin or self.threads != 1 or not hasattr(os, "sched_getaffinity"):
            return None
        return max(os.sched_getaffinity(0))


def worker_variables(environment: Environment, case: Case, part: str, options: Options) -> dict[str, str]:
    """Everything that is set for the worker on top of the user's environment; goes into the record."""
    threads = str(options.threads)
    found = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    found |= environment.variables() | dict(case.support.env)
    if part == "memory":
        found |= MALLOC_ENV
    return found


def run_worker(
    case: Case,
    part: str,
    environment: Environment,
    options: Options,
    scratch: Path,
    progress: Progress,
    reference: Reference | None = None,
) -> Outcome:
    """Run one part of a case in a process of its own and say what became of it. Never raises for a worker's fault."""
    started = time.monotonic()
    variables = worker_variables(environment, case, part, options) | environment.scratch(scratch)
    worker = Worker(environment, "worker", options.task(case, part, reference).as_dict(), variables, scratch / part)
    energy = nvml.Energy()

    def on_phase(phase: str) -> None:
        energy.on_phase(phase)
        progress(part, phase)

    with ProcessPeak(worker.process.pid) as device:
        outcome = supervise(worker, options.time_limit_s, on_phase)
    outcome.seconds, outcome.joules = time.monotonic() - started, energy.joules
    outcome.device_process, outcome.device_note = device.peak, device.note
    return outcome


def measure(
    case: Case,
    session: str,
    environment: Environment | None = None,
    options: Options = Options(),
    results: Path = RESULTS,
    progress: Progress = lambda part, phase: None,
) -> Record:
    """Measure one case and write its record. Raises OSError if it cannot be written, SetupError without environment."""
    environment = environment or environments.describe(case.framework)
    started, load = time.monotonic(), load_average()
    outcomes: dict[str, Outcome] = {}
    card = nvml.state()
    reference = references.find(case, session, results / "records" / provenance.machine_name())
    with tempfile.TemporaryDirectory(prefix="framebench-") as scratch:
        for part in ("time", "memory") if not (missing := unsupported(case)) else ():
            outcomes[part] = run_worker(case, part, environment, options, Path(scratch), progress, reference)
            if outcomes[part].status != "ok" or not passed(outcomes[part]):
                break
    halves, status, reason = join(outcomes) if outcomes else ({}, "unsupported", missing)
    record = Record(
        case=case.id,
        status=status,
        reason=reason,
        log_tail=next((o.log for o in outcomes.values() if o.log), None),
        provenance=provenance_of(case, session, environment, options, load, outcomes, results, card),
        **halves,
    )
    if outcomes:
        record = record.model_copy(update={"spent_s": spent(outcomes, time.monotonic() - started)})
    store.write(record, store.folder(results, record.provenance.machine, environment.name, case))
    return record


def unsupported(case: Case) -> str | None:
    """Why the case cannot be measured here, if it cannot."""
    if case.support.supported and case.support.gpu and not nvml.gpus():
        return f"needs a GPU, which this machine does not have: {case.support.why}"
    return None if case.support.supported else case.support.why


MEMORY_FIELDS = ("peaks", "peak_samples", "cold_peaks", "live_bytes", "allocator")
TIME_FIELDS = ("first_step_s", "step_s", "device_step_s", "cpu_s_per_step", "shares")
ENOUGH_S = 1.0  # of timed steps for an energy per step: the counter moves every 20 to 100 ms


def passed(outcome: Outcome) -> bool:
    return outcome.result.get("verification", {"passed": True})["passed"]


def join(outcomes: dict[str, Outcome]) -> tuple[dict[str, Any], Status, str | None]:
    """The halves as fields of a record, and the status that follows. A wrong result has no measurements."""
    timed, memory = outcomes["time"], outcomes.get("memory", Outcome())
    halves = timed.result | memory.result
    fields: dict[str, Any] = {name: halves[name] for name in (*MEMORY_FIELDS, *TIME_FIELDS) if name in halves}
    if "cold_peaks" in fields:
        fields["cold_peaks"] = larger(timed.result.get("cold_peaks", {}), memory.result.get("cold_peaks", {}))
    if memory.device_process is not None and "peaks" in fields:
        fields["peaks"]["device.process"] = memory.device_process
        fields["allocator"] = fields.get("allocator", {}) | beyond_the_pool(memory.result, memory.device_process)
    if timed.joules is not None and halves.get("timed_s", 0) >= ENOUGH_S:
        fields["energy_j_per_step"] = timed.joules / halves["timed_steps"]
    if "effect" in halves:
        fields["effect"] = Proof(**halves["effect"])
    if "verification" in halves:
        verification = fields["verification"] = Verification(**finite(halves["verification"]))
        if not verification.passed:
            said = filter(None, (verification.reason, worst(verification)))
            return {"verification": verification}, "wrong", "; ".join(said)
    for part, outcome in outcomes.items():
        if outcome.status != "ok":
            return fields, outcome.status, f"{part} worker: {outcome.reason}"
    return fields, "ok", None


def larger(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """By instrument. The time worker's first step compiles and tunes, the memory worker's finds that done."""
    return {name: max(d[name] for d in (one, other) if name in d) for name in (*other, *(n for n in one if n not in other))}


def beyond_the_pool(memory: dict[str, Any], process: int) -> dict[str, int]:
    """Bytes of the process that are not the pool's at its largest: CUDA context, kernels, libraries' own workspaces."""
    pools = (memory.get(name, {}).get("allocator.reserved") for name in ("peaks", "cold_peaks"))
    pool = max((p for p in pools if p is not None), default=None)
    return {} if pool is None or pool > process else {"context_bytes": process - pool}


def finite(found: Any) -> Any:
    """NaN and infinity as None, at any depth: they are no numbers, and JSON has none."""
    if isinstance(found, dict):
        return {name: finite(value) for name, value in found.items()}
    return None if isinstance(found, float) and not math.isfinite(found) else found


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


def spent(outcomes: dict[str, Outcome], total: float) -> dict[str, float]:
    """Where the time went: import, build and work of the two workers, and `harness`: everything else."""
    found = {
        f"{part}_{name}": o.result[f"{name}_s"]
        for part, o in outcomes.items()
        for name in ("import", "build", "work")
        if f"{name}_s" in o.result
    }
    return found | {"harness": total - sum(found.values()), "total": total}


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
) -> Provenance:
    result = next((o.result for o in outcomes.values() if o.result), {})
    variables = worker_variables(environment, case, "memory", options) if outcomes else {}
    return Provenance(
        session=session,
        measured_at=datetime.now(UTC),
        command=provenance.command(),
        commit=provenance.commit(),
        dirty=provenance.dirty(),
        machine=provenance.machine_name(),
        hardware=provenance.hardware() | ({"device": result["device"]} if "device" in result else {}),
        python=result.get("python", platform.python_version()),
        versions=result.get("versions", {environment.framework: environment.version}),
        environment={k: v for k, v in variables.items() if k != "HOME"},
        threads=options.threads,
        core=options.core(),
        load_before=load,
        load_after=load_average(),
        profile=options.profile,
        memory_limit=options.memory_limit,
        calibration=store.calibration(results),
        gpu=around(card, outcomes) if card else {},
        protocol=VERSION,
    )


def around(before: dict[str, Any], outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """The card before and after the case, and why a figure is missing."""
    note = next((o.device_note for o in outcomes.values() if o.device_note), None)
    return {"before": before, "after": nvml.state(), **({"device.process": note} if note else {})}


def measure_once(
    case: Case,
    session: str,
    environment: Environment,
    options: Options = Options(),
    results: Path = RESULTS,
    progress: Progress = lambda part, phase: None,
) -> Record:
    """The case's record of this session: read if it is there, else measured now."""
    where = store.folder(results, provenance.machine_name(), environment.name, case)
    return store.of_session(where, session) or measure(case, session, environment, options, results, progress)
