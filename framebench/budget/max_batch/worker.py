"""One case under a budget of memory, in a process of its own: `python -m framebench.budget.max_batch.worker ORDER`.

ORDER is JSON. Runs inside the framework's environment, as the other workers do, and speaks their language; beside phases it may
send `{"report": ...}` about what is done already, so that this outlives the process.
"""

from __future__ import annotations

import gc
import math
import os
import signal
from typing import Any, TypedDict

from framebench import adapters
from framebench.adapters.base import Adapter, Batch
from framebench.budget.max_batch.order import UNDER, Order
from framebench.instruments import limits
from framebench.instruments.limits import card_bytes, mapped
from framebench.suite.case import Case
from framebench.suite.protocol import BatchReport
from framebench.worker.worker import Emit, WorkerError, peaks, serve, timed_step


class FitResult(TypedDict):
    """Of a batch that was tried under a budget."""

    peaks: dict[str, int]
    cold_peaks: dict[str, int]
    kept_bytes: int | None
    step_s: float
    limited: bool  # whether anything enforced the budget


def fit(adapter: Adapter, order: Order, emit: Emit) -> FitResult:
    """Three steps within the budget: the first one's peak, a steady one's, and the time of the last."""
    emit({"phase": "compile"})
    adapter.compile()
    before = _beside_tensors(adapter)
    limited = order.budget is not None and adapter.cap(order.budget)
    emit({"phase": f"steps {UNDER}" if limited else "steps"})
    cold = peaks(adapter)
    steady = peaks(adapter)
    after = _beside_tensors(adapter)
    seconds = timed_step(adapter)
    adapter.cap(None)  # the loss of an evaluation is no part of its step
    loss = adapter.loss()
    if not math.isfinite(loss):
        raise ArithmeticError(f"the loss became {loss}")
    kept = None if before is None or after is None else max(0, after - before)
    return {"peaks": steady, "cold_peaks": cold, "kept_bytes": kept, "step_s": seconds, "limited": limited}


def _beside_tensors(adapter: Adapter) -> int | None:
    """Private bytes of the process that are no tensors; on the CPU, where workspaces and generated kernels are among them."""
    if adapter.device() != "cpu":
        return None
    adapter.release()
    adapter.reset_peak()
    return mapped() - adapter.live_bytes()


def _evaluate(adapter: Adapter, order: Order, emit: Emit) -> dict[str, Any]:
    """All samples from `order.first` on, by batches that are halved whenever memory runs out."""
    x, y = adapter.workload.batch(adapter.config, order.samples)
    emit({"phase": "warm-up"})  # by one sample: libraries are loaded, and kernels made that depend on no shape
    prepare(adapter, (x[:1], y[:1]))
    _attempt(adapter)
    first, batch, compiled, limited = order.first, adapter.case.batch, 1, False
    while first < order.samples:
        part = x[first : first + batch], y[first : first + batch]
        size = len(part[0])
        emit({"report": {"first": first, "batch": size}})
        emit({"phase": "compile"})
        adapter.cap(None)
        prepare(adapter, part, anew=size != compiled)
        compiled = size
        limited = order.budget is not None and adapter.cap(order.budget)
        emit({"phase": f"evaluation {UNDER}" if limited else "evaluation"})
        measurement, ran_out = _attempt(adapter)
        if not ran_out and order.budget and not limited and measurement["peaks"].get("allocator.in_use", 0) > order.budget:
            ran_out = "it finished, but memory beyond the budget was taken: nothing enforces a limit here"
        if not ran_out:
            report: BatchReport = {"first": first, "batch": size, **measurement}
            emit({"report": report})
            first += size
        elif size == 1:
            raise MemoryError(ran_out)
        else:
            batch = size // 2
            emit({"report": {"first": first, "batch": size, "ran_out": ran_out}})
    return {"limited": limited}


def prepare(adapter: Adapter, part: Batch, anew: bool = True) -> None:
    """Inputs on the device, and for a new shape what must be compiled."""
    adapter.inputs = adapter.put(*part)
    if anew:
        adapter.compile()


class Found(TypedDict, total=False):
    """Of a batch that was evaluated."""

    peaks: dict[str, int]
    losses: list[float]


def _attempt(adapter: Adapter) -> tuple[Found, str]:
    """Losses and peaks of one batch, or how memory ran out. On return the error is gone, and its frames' tensors."""
    try:
        peak_bytes = peaks(adapter)
        return {"peaks": peak_bytes, "losses": adapter.sample_losses()}, ""
    except Exception as error:
        limited = limits.enforced()
        adapter.cap(None)
        if not limits.ran_out(error, limited):
            raise
        return {}, f"{type(error).__name__}: {str(error)[:2000]}"
    finally:
        adapter.release()
        gc.collect()


def set_before_import(case: Case, budget: int | None) -> None:
    """What must be in the environment before the framework is imported: JAX takes its limit on a GPU as a share of the card."""
    total = card_bytes()
    if case.framework == "jax" and budget is not None and total is not None:
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{budget / total:.6f}"


def die_plainly() -> None:
    """Without a framework's own handlers, one of which hangs when malloc fails beneath it, and without core files."""
    import resource

    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(order: Order, emit: Emit) -> dict[str, Any]:
    """Raises WorkerError for what the framework raises."""
    case = Case.of(order.case)
    set_before_import(case, order.budget)
    emit({"phase": "import"})
    adapter = adapters.load(case)
    emit({"phase": "build"})
    try:
        adapter.build()
        adapter.synchronize()
        die_plainly()
        result = fit(adapter, order, emit) if order.do == "fit" else _evaluate(adapter, order, emit)
    except Exception as error:
        limited = limits.enforced()
        adapter.cap(None)
        raise WorkerError(error, limits.ran_out(error, limited)) from error
    adapter.cap(None)
    return {**result, "versions": adapter.versions(), "device": adapter.device()}


if __name__ == "__main__":
    serve(lambda orders, emit: run(Order(**orders), emit))
