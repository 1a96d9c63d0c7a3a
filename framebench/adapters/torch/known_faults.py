"""Try what PyTorch is known to compute wrong.

It is tried on this machine, since it depends on the processor and on the release.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from framebench.suite.case import Case

ROWS = 4096  # of a layer norm: tokens of a batch
# Relative error of a gradient that is wrong; rounding to bfloat16 makes a thirtieth of it.
WRONG_GRADIENT = 0.1
# Relative error of a sum that is wrong: four units in the last place of bfloat16.
WRONG_SUM = 4 * 2.0**-8


def find_known_fault(case: Case) -> str | None:
    """Return the fault that makes this case wrong on this machine, if there is one.

    It is oneDNN's gradient of a 3-D convolution over very few voxels in bfloat16.
    """
    trains_unet = case.workload == "unet3d" and case.stage.trains
    if not trains_unet or case.plan.precision != "bf16" or torch.cuda.is_available():
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
    volume = (2, channels, edge, edge, edge)
    x = torch.randn(volume, generator=generator)
    w = torch.randn((channels, channels, 3, 3, 3), generator=generator)
    g = torch.randn(volume, generator=generator)

    def compute_gradient(dtype: torch.dtype) -> Tensor:
        # Memory that is handed out again has large numbers then, so that what the kernel leaves
        # unwritten shows.
        filled = [torch.full_like(w, 1e30) for _ in range(8)]
        del filled
        weight = w.to(dtype, copy=True).requires_grad_()
        F.conv3d(x.to(dtype), weight, padding=1).backward(g.to(dtype))
        assert weight.grad is not None
        return weight.grad.double()

    right = compute_gradient(torch.float64)
    computed = compute_gradient(torch.bfloat16)
    error = (computed - right).norm() / right.norm()
    return float(error.nan_to_num(torch.inf))


def explain_wrong_norms(model: nn.Module, names: list[str]) -> str | None:
    """Return the fault that makes weights of layer norms wrong in bfloat16, if it explains these.

    PyTorch adds up a norm's gradients over all rows in bfloat16 on some processors.

    Args:
        model: has the norms.
        names: the weights that came out wrong. One of them must belong to a layer norm.
    """
    if torch.cuda.is_available():
        return None
    norms = []
    for name, module in model.named_modules():
        if isinstance(module, nn.LayerNorm):
            norms.append(f"{name}.")
    wrong = [name for name in names if name.startswith(tuple(norms))]
    if not wrong:
        return None
    error = _measure_norm()
    if error < WRONG_SUM:
        return None
    return (
        f"PyTorch {torch.__version__} adds up the gradients of a layer norm's weights, such as "
        f"{wrong[0]}, in bfloat16 on this processor: over {ROWS:,} rows they are off by "
        f"{error:.0%}, and by more where they cancel"
    )


@cache
def _measure_norm() -> float:
    """Return the relative error of a bias's gradient, which is a sum over all rows."""
    upstream = torch.randn(ROWS, 16, generator=torch.Generator().manual_seed(0)).bfloat16()
    weight = torch.ones(16)
    bias = torch.zeros(16, requires_grad=True)
    F.layer_norm(upstream.clone(), (16,), weight, bias).backward(upstream)
    assert bias.grad is not None
    right = upstream.double().sum(0)
    return float((bias.grad.double() - right).norm() / right.norm())
