"""Where a framework itself computes wrong: as long as it does, and no longer, `measure/honest.py` may leave its cases out."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.measure.environments import Environment
from framebench.measure.honest import BROKEN
from tests.processes import run_inside

# Memory that is handed out again is filled first, so that what stays unwritten is seen.
WEIGHT_GRADIENT = """
import json, torch, torch.nn.functional as F
torch.manual_seed(0)
x, w, g = torch.randn(2, 16, 2, 2, 2), torch.randn(16, 16, 3, 3, 3), torch.randn(2, 16, 2, 2, 2)

def gradient(dtype):
    filled = [torch.full_like(w, 1e30) for _ in range(8)]
    del filled
    weight = w.to(dtype, copy=True).requires_grad_()
    F.conv3d(x.to(dtype), weight, padding=1).backward(g.to(dtype))
    return weight.grad.double()

right = gradient(torch.float64)
found = {"bfloat16": gradient(torch.bfloat16), "float32": gradient(torch.float32)}
with torch.backends.mkldnn.flags(enabled=False):
    found["bfloat16 without oneDNN"] = gradient(torch.bfloat16)
off = {name: float((value - right).norm() / right.norm()) for name, value in found.items()}
print(json.dumps({name: min(error, 1e30) if error == error else 1e30 for name, error in off.items()}))
"""


def test_a_small_volumes_weight_gradient_is_unwritten_memory_in_bfloat16(environment: dict[str, Environment]) -> None:
    """U-Net's lowest level at `cpu` has 2x2x2 voxels. Should this fail because PyTorch became right: take the case out of
    BROKEN, and measure its honest errors."""
    flags = Path("/proc/cpuinfo").read_text().split()
    if "avx512_bf16" not in flags or "amx_bf16" in flags:
        pytest.skip("oneDNN takes another kernel on this processor: it was seen with AVX512-BF16 alone")
    off = run_inside(environment["torch"], WEIGHT_GRADIENT)
    assert isinstance(off, dict)
    assert off["float32"] < 1e-5
    assert off["bfloat16 without oneDNN"] < 1e-2
    assert off["bfloat16"] > 1, f"PyTorch is right now; take {BROKEN} out of framebench/measure/honest.py"
