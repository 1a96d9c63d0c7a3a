"""Print the error of a small volume's weight gradient in bfloat16, and the faults of cases."""

import json

import torch
import torch.nn.functional as F

from framebench.adapters.torch.known_faults import find_known_fault
from framebench.suite.selectors import parse

CASES = ("train/amp_bf16/b4/cpu", "train/amp_bf16/b4/tiny", "train/fp32/b4/cpu")

torch.manual_seed(0)
x, g = torch.randn(2, 2, 16, 2, 2, 2)
w = torch.randn(16, 16, 3, 3, 3)


def compute_gradient(dtype):
    filled = [torch.full_like(w, 1e30) for _ in range(8)]
    del filled
    weight = w.to(dtype, copy=True).requires_grad_()
    F.conv3d(x.to(dtype), weight, padding=1).backward(g.to(dtype))
    return weight.grad.double()


right = compute_gradient(torch.float64)
error = (compute_gradient(torch.bfloat16) - right).norm() / right.norm()
faults = {case: find_known_fault(parse(f"unet3d/torch/{case}")) for case in CASES}
print(json.dumps({"error": float(error.nan_to_num(1e30, 1e30)), "faults": faults}))
