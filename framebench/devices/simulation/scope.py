"""Say which of PyTorch's cases can be simulated, which can only be bounded, and why.

It imports no framework: the planner obeys it, and a table of the documents is made of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from framebench.models.spec import USER_MODEL
from framebench.suite.case import Case

MODES = {  # of torch.compile, with why a mode cannot be simulated
    "reduce-overhead": "CUDA graphs keep their memory in pools of their own",
    "max-autotune": "which kernel is fastest, and so its memory, is measured on the GPU",
    "max-autotune-no-cudagraphs": "which kernel is fastest, and so its memory, is measured on the "
    "GPU",
}
OUTSIDE = {  # by the switch of a strategy, why it cannot be simulated
    "pool_off": "without its pool PyTorch asks the driver for each tensor, and the driver's "
    "rounding is its own",
    "malloc_async": "the driver's own pool decides, and it runs on the GPU alone",
    "autotune": "which algorithm is fastest, and so its workspace, is measured on the GPU",
    "offload_streamed": "when a copy on another stream is done, and its memory free, is decided "
    "on the GPU",
}
# switches of strategies by which the step has the same tensors
SAME_TENSORS = ("pool_off", "malloc_async", "autotune")
# without these switches, too, it is a step of the same weights
WITHOUT = ("compile", "jit_script", "offload_streamed", *SAME_TENSORS)
Scope = Literal["answered", "bounded from both sides", "bounded from below", "refused"]


def explain_missing_simulation(case: Case) -> str | None:
    """Return why this case cannot be simulated, or None if it can."""
    axes = {part.axis: part.name for part in case.parts}
    if case.ranks > 1 and case.support.package:
        return f"{case.support.package} is not followed on fake tensors"
    if axes.get("execution") == "jit_script" or axes.get("pair", "").startswith("scripted"):
        return "TorchScript runs no step on tensors without numbers"
    if case.workload == USER_MODEL and case.spec.facts.get("compiled"):
        return (
            "the file compiles its model, and compilation is a strategy of its own here: ask for "
            "the strategy compile, without torch.compile in model()"
        )
    if "loading" in axes:
        return "the loader's threads and files are real"
    for part in case.parts:
        if part.how in OUTSIDE:
            return OUTSIDE[part.how]
    return None


def find_stand_in(case: Case) -> Case | None:
    """Return the case without what is not simulated; None if nothing known remains."""
    remaining = []
    removed = []
    for part in case.plan.parts:
        if part.how.startswith(WITHOUT):
            removed.append(part.how)
        else:
            remaining.append(part.name)
    if not removed:
        return None
    stand_in = replace(case, strategy="+".join(remaining) or case.stage.baseline)
    return stand_in if stand_in.is_known and stand_in.support.supported else None


def explain_refusal(case: Case) -> str | None:
    """Return why the answer for a case has no peak, or None if it has one."""
    obstacle = explain_missing_simulation(case)
    if obstacle:
        return obstacle
    for part in case.parts:
        if part.how.startswith("compile"):
            if case.ranks > 1:
                return "compiled steps of several GPUs are not simulated"
            mode = part.options.get("mode")
            if mode in MODES:
                return MODES[mode]
    return None


def find_scope(case: Case, has_convolutions: bool) -> Scope:
    """Return what is answered for a case.

    Nobody knows the largest workspace of a convolution, so that a step with some has no upper
    bound.
    """
    if explain_refusal(case) is None:
        return "answered"
    stand_in = find_stand_in(case)
    if stand_in is None or explain_refusal(stand_in):
        return "refused"
    is_pool_off = any(part.how == "pool_off" for part in case.parts)
    return (
        "bounded from both sides" if is_pool_off and not has_convolutions else "bounded from below"
    )
