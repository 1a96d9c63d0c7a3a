"""Say which of PyTorch's cases can be simulated, which can only be bounded, and why.

It imports no framework: the planner obeys it, and a table of the documents is made of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from framebench.models.spec import USER_MODEL
from framebench.strategies.strategy import COMPILING
from framebench.suite.case import Case

BY_TUNING = "which kernel is fastest, and so its memory, is measured on the GPU"
MODES = {  # of torch.compile, with why a mode cannot be simulated
    "reduce-overhead": "CUDA graphs keep their memory in pools of their own",
    "max-autotune": BY_TUNING,
    "max-autotune-no-cudagraphs": BY_TUNING,
}
OUTSIDE = {  # by the switch of a strategy, why it cannot be simulated
    "pool_off": "without its pool PyTorch asks the driver for each tensor, and the driver's "
    "rounding is its own",
    "malloc_async": "the driver's own pool decides, and it runs on the GPU alone",
    "autotune": "which algorithm is fastest, and so its workspace, is measured on the GPU",
}
# Why memory that another stream uses (`Tensor.record_stream`) can only be bounded: the step is
# simulated as if such copies were done at once, and as if none were done before the step ends.
BY_TIMING = (
    "when a copy on another stream is done, and its memory free, is decided on the GPU while the "
    "step runs"
)
ON_OTHER_STREAMS = ("offload_streamed",)  # switches of strategies that copy so
# switches that are left out of the step to be simulated, though they change its tensors ...
CHANGING_TENSORS = (*COMPILING, "jit_script", *ON_OTHER_STREAMS)
# ... and those that change only where its tensors lie, or how much a kernel takes beside them
KEEPING_TENSORS = ("pool_off", "malloc_async", "autotune")
# a pair of TorchScript models, and the pair of modules with the same weights that stands in for it
UNSCRIPTED = {"scripted": "together", "scripted_shared_trunk": "shared_trunk"}
Scope = Literal["answered", "bounded from both sides", "bounded from below", "refused"]


def explain_missing_simulation(case: Case) -> str | None:
    """Return why this case cannot be simulated, or None if it can."""
    axes = {part.axis: part.name for part in case.parts}
    if case.ranks > 1 and case.support.package:
        return f"{case.support.package} is not followed on fake tensors"
    if axes.get("execution") == "jit_script" or axes.get("pair") in UNSCRIPTED:
        return (
            "which kernels TorchScript merges, and what it keeps for the backward pass, is decided "
            "on the GPU by its first steps"
        )
    if case.workload == USER_MODEL and case.workload_spec.facts.get("compiled"):
        return (
            "the file compiles its model, and compilation is a strategy of its own here: ask for "
            "the strategy compile, without torch.compile in model()"
        )
    if "loading" in axes:
        return "the loader's threads and files are real"
    for part in case.parts:
        if part.switch in OUTSIDE:
            return OUTSIDE[part.switch]
    return None


def find_stand_in(case: Case) -> Case | None:
    """Return the case without what is not simulated; None if nothing known remains.

    The step of a pipeline is one of training, without its loader.
    """
    is_pipeline = case.scenario == "pipeline"
    has_changed = is_pipeline
    remaining = []
    for part in case.strategy_spec.parts:
        if part.name in UNSCRIPTED:
            has_changed = True
            remaining.append(UNSCRIPTED[part.name])
        elif part.axis == "loading" or part.switch in CHANGING_TENSORS + KEEPING_TENSORS:
            has_changed = True
        else:
            remaining.append(part.name)
    if not has_changed:
        return None
    stand_in = replace(case, scenario="train") if is_pipeline else case
    strategy = "+".join(remaining) or stand_in.scenario_spec.baseline
    stand_in = replace(stand_in, strategy=strategy)
    return stand_in if stand_in.is_known and stand_in.support.supported else None


def has_same_tensors(case: Case) -> bool:
    """Return whether the step has all tensors of its stand-in (`find_stand_in`).

    If not, it has the same weights, and in training their gradients and the optimizer's states.
    """
    return not any(
        part.switch in CHANGING_TENSORS or part.name in UNSCRIPTED for part in case.parts
    )


def is_without_pool(case: Case) -> bool:
    """Return whether a step is simulated but for the pool, in whose place each tensor has pages."""
    changed = {part.switch for part in case.parts} & {*KEEPING_TENSORS}
    return changed == {"pool_off"} and has_same_tensors(case)


def explain_refusal(case: Case) -> str | None:
    """Return why the answer for a case has no peak, or None if it has one."""
    obstacle = explain_missing_simulation(case) or explain_unsupported_compilation(case)
    if obstacle is None and any(part.switch in ON_OTHER_STREAMS for part in case.parts):
        return BY_TIMING
    return obstacle


def explain_unsupported_compilation(case: Case) -> str | None:
    """Return why the compiled step of this case cannot be simulated, or None if it can."""
    for part in case.parts:
        if part.compiles:
            if case.ranks > 1:
                return "compiled steps of several GPUs are not simulated"
            mode = part.options.get("mode")
            if mode in MODES:
                return MODES[mode]
    return None


def find_scope(case: Case, has_convolutions: bool, asks_cudnn: bool) -> Scope:
    """Return what is answered for a case.

    Where cuDNN cannot be asked, nobody knows the largest workspace of a convolution, so that a step
    with some has no upper bound.
    """
    if explain_refusal(case) is None:
        return "answered"
    if explain_refusal(case) == BY_TIMING:
        return "bounded from both sides"
    stand_in = find_stand_in(case)
    if stand_in is None or explain_refusal(stand_in):
        return "refused"
    is_bounded_above = is_without_pool(case) and (asks_cudnn or not has_convolutions)
    return "bounded from both sides" if is_bounded_above else "bounded from below"
