"""Name the results that PyTorch is known to compute wrong."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from framebench.adapters.torch.observe import StepCounter
from framebench.suite.case import Case

# A gradient with a larger relative error is wrong; rounding to bfloat16 makes a thirtieth of it.
WRONG_GRADIENT = 0.1
LAYER_NORM_FAULT = (
    "adds up the gradients of a layer norm's weights, such as {weight}, in bfloat16 on some "
    "processors"
)
MASK_FAULT = (
    "draws random numbers anew where activation_memory_budget has them computed again: dropout "
    "has another mask in the backward pass (pytorch issue 190758)"
)
GRU_FAULT = (
    "changes a product of its GRU in place, which selective checkpointing has saved, and does not "
    "notice"
)
INTERPOLATION_FAULT = "loses gradients below `interpolate` in a compiled step in bfloat16"


def find_known_fault(case: Case) -> str | None:
    """Return the fault that makes this case wrong on this machine, or None.

    The only one is oneDNN's gradient of a 3-D convolution over very few voxels in bfloat16. It
    depends on the processor and on the release, so it is tested here.
    """
    trains_unet = case.workload == "unet3d" and case.scenario_spec.trains
    if not trains_unet or case.strategy_spec.precision != "bf16" or torch.cuda.is_available():
        return None
    config = case.config
    edge = config.patch >> (len(config.filters) - 1)
    if _measure_convolution(config.filters[-1], edge) <= WRONG_GRADIENT:
        return None
    return (
        f"PyTorch {torch.__version__} leaves part of a weight gradient unwritten in bfloat16 on "
        f"this processor: that of a 3-D convolution over {edge}x{edge}x{edge} voxels, here of the "
        f"lowest level"
    )


@cache
def _measure_convolution(channels: int, edge: int) -> float:
    """Return the relative error of a weight gradient in bfloat16; infinity if it is no number."""
    generator = torch.Generator().manual_seed(0)
    x, g = torch.randn(2, 2, channels, edge, edge, edge, generator=generator)
    w = torch.randn(channels, channels, 3, 3, 3, generator=generator)

    def compute_gradient(dtype: torch.dtype) -> Tensor:
        """Return the weight's gradient, computed in `dtype`."""
        # The memory that these leave behind has large numbers in it, so that a part that the kernel
        # does not write shows.
        filled = [torch.full_like(w, 1e30) for _ in range(8)]
        del filled
        weight = w.to(dtype, copy=True).requires_grad_()
        F.conv3d(x.to(dtype), weight, padding=1).backward(g.to(dtype))
        assert weight.grad is not None
        return weight.grad.double()

    right = compute_gradient(torch.float64)
    error = (compute_gradient(torch.bfloat16) - right).norm() / right.norm()
    return float(error.nan_to_num(torch.inf))


def explain_wrong_gradients(adapter: Any, wrong: list[str]) -> str | None:
    """Return PyTorch's fault that makes a step of a user's model wrong, or None if none is known.

    The fault is recognised by what the step does; whether it is the cause is not tested. `wrong`
    has the weights whose gradient was wrong.
    """
    fault = find_fault_of_step(adapter, wrong)
    return f"PyTorch {torch.__version__} {fault}" if fault else None


def find_fault_of_step(adapter: Any, wrong: list[str]) -> str:
    """Return the first known fault whose conditions this step has, or "".

    `wrong` has the names of the weights whose gradient was wrong. Only the fault of layer norms
    depends on them; the others go by what the step runs.
    """
    switches = [part.switch for part in adapter.case.parts]
    is_bf16 = adapter.case.strategy_spec.precision == "bf16"
    wrong_layers = {name.rpartition(".")[0] for name in wrong}
    norms = set(list_names(adapter.model, nn.LayerNorm))
    if is_bf16 and wrong and wrong_layers <= norms and adapter.device() == "cpu":
        return LAYER_NORM_FAULT.format(weight=wrong[0])
    if adapter.process.activation_budget < 1 and adapter.draws_random_numbers():
        return MASK_FAULT
    if "checkpoint_dots" in switches and list_names(adapter.model, nn.GRU | nn.GRUCell):
        return GRU_FAULT
    if adapter.case.strategy_spec.compiles and is_bf16 and interpolates(adapter):
        return INTERPOLATION_FAULT
    return ""


def list_names(model: nn.Module, kind: Any) -> list[str]:
    """Return the names of a model's modules of one class."""
    return [name for name, module in model.named_modules() if isinstance(module, kind)]


def interpolates(adapter: Any) -> bool:
    """Run one more step, in which nothing is compiled, and return whether it interpolates."""
    with torch.compiler.set_stance("force_eager"), StepCounter([], []) as observed:
        adapter.one_step()
    return any(name.startswith("upsample") for name in observed.operators)
