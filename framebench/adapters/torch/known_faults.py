"""What PyTorch computes wrong, as far as it is known. It is tried, since it depends on processor and version."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from framebench.suite.case import Case

ROWS = 4096  # of a layer norm: tokens of a batch
OFF = 0.1  # relative error of a gradient: rounding to bfloat16 makes a thirtieth of it


def find_known_fault(case: Case) -> str | None:
    """Why the case cannot come out right here, if it cannot."""
    if case.workload != "unet3d" or case.plan.precision != "bf16" or not case.stage.trains or torch.cuda.is_available():
        return None
    config = case.config
    edge = config.patch >> (len(config.filters) - 1)
    if _off_by(config.filters[-1], edge) <= OFF:
        return None
    return (
        f"PyTorch {torch.__version__} leaves part of a weight gradient unwritten in bfloat16 on this processor: that of a 3-D"
        f" convolution over {edge}x{edge}x{edge} voxels, here of the lowest level"
    )


@cache
def _off_by(channels: int, edge: int) -> float:
    """The relative error of such a gradient (oneDNN's kernel). Memory that is handed out again is filled first, so that what
    stays unwritten is seen."""
    generator = torch.Generator().manual_seed(0)
    shapes = (2, channels, *[edge] * 3), (channels, channels, 3, 3, 3), (2, channels, *[edge] * 3)
    x, w, g = (torch.randn(shape, generator=generator) for shape in shapes)

    def gradient(dtype: torch.dtype) -> Tensor:
        filled = [torch.full_like(w, 1e30) for _ in range(8)]
        del filled
        weight = w.to(dtype, copy=True).requires_grad_()
        F.conv3d(x.to(dtype), weight, padding=1).backward(g.to(dtype))
        assert weight.grad is not None
        return weight.grad.double()

    right, computed_gradient = gradient(torch.float64), gradient(torch.bfloat16)
    return float(((computed_gradient - right).norm() / right.norm()).nan_to_num(torch.inf))


def of_norms(model: nn.Module, names: list[str]) -> str | None:
    """Whether one of these weights, which came out wrong in bfloat16, is of a layer norm that PyTorch differentiates wrong."""
    norms = [f"{name}." for name, module in model.named_modules() if isinstance(module, nn.LayerNorm)]
    named = next((name for name in names if name.startswith(tuple(norms))), None) if norms else None
    if named is None or torch.cuda.is_available() or (off := _norms_off_by()) < 4 * 2.0**-8:
        return None
    return (
        f"PyTorch {torch.__version__} adds up the gradients of a layer norm's weights, such as {named}, in bfloat16 on this "
        f"processor: over {ROWS:,} rows they are off by {off:.0%}, and by more where they cancel"
    )


@cache
def _norms_off_by() -> float:
    """The relative error of a bias's gradient, which is the sum of what comes back over all rows."""
    given = torch.randn(ROWS, 16, generator=torch.Generator().manual_seed(0)).bfloat16()
    weight, bias = torch.ones(16), torch.zeros(16, requires_grad=True)
    F.layer_norm(given.clone(), (16,), weight, bias).backward(given)
    assert bias.grad is not None
    right = given.double().sum(0)
    return float((bias.grad.double() - right).norm() / right.norm())
