"""One case under a budget of memory, in a process of its own.

It is started as `python -m framebench.budget.max_batch.worker ORDER`, where ORDER is JSON. It runs
inside the framework's environment and speaks the protocol of the other workers. Apart from phases
it sends `{"report": ...}` for each batch that is done, so that what is done outlives the process.
"""

from __future__ import annotations

import gc
import math
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.budget.max_batch.order import UNDER_LIMIT, ProbeOrder
from framebench.instruments import limits
from framebench.instruments.limits import measure_mapped, read_gpu_memory
from framebench.suite.case import Case
from framebench.suite.protocol import BatchReport
from framebench.worker.observe import restart
from framebench.worker.stepping import make_timed_step
from framebench.worker.worker import Emit, WorkerError, measure_peaks, repeat_new_shapes, serve

MOST_CHARACTERS = 2000  # of an error that is reported


class FitResult(TypedDict):
    """What three steps of a case took: fields of `framebench.records.search.Probe`."""

    cold_peaks: dict[str, int]  # bytes of the first step, by instrument
    peaks: dict[str, int]  # bytes of the second step, by instrument
    kept_bytes: int | None  # private bytes, no tensors, that two steps added; None off the CPU
    step_s: float  # of the third step
    limited: bool  # whether the budget was enforced


def fit(adapter: Adapter, order: ProbeOrder, emit: Emit) -> FitResult:
    """Make three steps within the budget, and return what they took."""
    emit({"phase": "compile"})
    adapter.compile()
    untracked_before = measure_untracked(adapter)
    limited = order.budget is not None and adapter.limit_memory(order.budget)
    emit({"phase": f"steps {UNDER_LIMIT}" if limited else "steps"})
    cold_peaks = measure_peaks(adapter)  # with compilation and what libraries take once

    def restart_under_limit(adapter: Adapter) -> None:
        adapter.limit_memory(None)  # a real job does not make its weights a second time
        restart(adapter)
        if order.budget is not None:
            adapter.limit_memory(order.budget)

    steady_peaks = measure_second_step(adapter, restart_under_limit)
    untracked_after = measure_untracked(adapter)
    seconds = make_timed_step(adapter)
    adapter.limit_memory(None)  # computing the loss is no part of a step of evaluation
    loss = adapter.loss()
    if not math.isfinite(loss):
        raise ArithmeticError(f"the loss became {loss}")
    kept_bytes = None
    if untracked_before is not None and untracked_after is not None:
        kept_bytes = max(0, untracked_after - untracked_before)
    return {
        "cold_peaks": cold_peaks,
        "peaks": steady_peaks,
        "kept_bytes": kept_bytes,
        "step_s": seconds,
        "limited": limited,
    }


def measure_second_step(
    adapter: Adapter, restart_steps: Callable[[Adapter], None]
) -> dict[str, int]:
    """Return the peaks of the second step in bytes, by instrument (see `repeat_new_shapes`)."""
    (peaks,) = repeat_new_shapes(adapter, lambda: [measure_peaks(adapter)], restart_steps)
    return peaks


def measure_untracked(adapter: Adapter) -> int | None:
    """Return the private bytes of the process that are no tensors; None on another device.

    On the CPU tensors are among the private bytes. The others are workspaces and generated kernels,
    for instance.
    """
    if adapter.device() != "cpu":
        return None
    adapter.release()
    adapter.reset_peak()
    return measure_mapped() - adapter.live_bytes()


def evaluate(adapter: Adapter, order: ProbeOrder, emit: Emit) -> dict[str, Any]:
    """Evaluate all samples from `order.first` on; halve the batch whenever memory runs out.

    Each batch is reported twice by `emit`: before it begins, and with its losses or how memory ran
    out. Returns whether a limit was enforced. Raises MemoryError if a single sample does not fit.
    """
    x, y = adapter.workload.make_batch(adapter.config, order.samples)
    # one sample loads libraries, and builds the kernels that depend on no shape
    emit({"phase": "warm-up"})
    adapter.inputs = adapter.put(x[:1], y[:1])
    adapter.compile()
    evaluate_batch(adapter, {"first": 0, "batch": 1})

    first = order.first
    batch = adapter.case.batch
    compiled_size = 1
    limited = False
    while first < order.samples:
        samples = slice(first, first + batch)
        size = len(x[samples])
        # said before it begins: the parent halves this batch if the process dies
        emit({"report": {"first": first, "batch": size}})
        emit({"phase": "compile"})
        adapter.limit_memory(None)  # inputs and programs are no part of the budget
        adapter.inputs = adapter.put(x[samples], y[samples])
        if size != compiled_size:
            adapter.compile()
            compiled_size = size
        limited = order.budget is not None and adapter.limit_memory(order.budget)
        emit({"phase": f"evaluation {UNDER_LIMIT}" if limited else "evaluation"})
        report: BatchReport = {"first": first, "batch": size}
        evaluate_batch(adapter, report)
        exceeds = report.get("peaks", {}).get("allocator.in_use", 0) > (order.budget or math.inf)
        if exceeds and not limited:
            reason = "it finished, but memory beyond the budget was taken: nothing enforces a limit"
            report = {"first": first, "batch": size, "ran_out": reason}
        if "ran_out" not in report:
            first += size
        elif size == 1:  # nothing is left to halve
            raise MemoryError(report["ran_out"])
        else:
            batch = size // 2
        emit({"report": report})
    return {"limited": limited}


def evaluate_batch(adapter: Adapter, report: BatchReport) -> None:
    """Evaluate the batch that is on the device, and add its losses and peaks to the report.

    If memory runs out, the report gets the error's text instead. The error itself is dropped, since
    its frames would keep their tensors alive.
    """
    try:
        report["peaks"] = measure_peaks(adapter)
        report["losses"] = adapter.sample_losses()
    except Exception as error:
        limited = limits.is_enforced()
        adapter.limit_memory(None)
        if not limits.is_out_of_memory(error, limited):
            raise
        report["ran_out"] = f"{type(error).__name__}: {str(error)[:MOST_CHARACTERS]}"
    finally:
        adapter.release()
        gc.collect()


def reset_signals() -> None:
    """Undo a framework's signal handlers, and write no core files.

    One of the handlers hangs when malloc fails beneath it.
    """
    import resource

    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_order(fields: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Carry out the order of the command line. Raises WorkerError for a framework's errors."""
    order = ProbeOrder(**fields)
    case = Case.from_id(order.case)
    gpu_bytes = read_gpu_memory()
    if case.framework == "jax" and order.budget is not None and gpu_bytes is not None:
        # before it is imported; JAX takes its limit as a share of the GPU
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{order.budget / gpu_bytes:.6f}"
    emit({"phase": "import"})
    adapter = adapters.load(case)
    emit({"phase": "build"})
    try:
        adapter.build()
        adapter.synchronize()
        reset_signals()
        result = (fit if order.task == "fit" else evaluate)(adapter, order, emit)
    except Exception as error:
        limited = limits.is_enforced()
        adapter.limit_memory(None)
        raise WorkerError(error, limits.is_out_of_memory(error, limited)) from error
    adapter.limit_memory(None)
    return {**result, "versions": adapter.versions(), "device": adapter.device()}


if __name__ == "__main__":
    serve(run_order)
