import json

import torch
import torch.nn.functional as F

from framebench.adapters.torch.known_faults import find_known_fault
from framebench.suite.selectors import parse

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
off = {name: min(error, 1e30) if error == error else 1e30 for name, error in off.items()}
cases = (
    "train/amp_bf16/b4/cpu",
    "train/amp_bf16/b4/tiny",
    "train/fp32/b4/cpu",
    "eval/amp_bf16/b4/cpu",
)
print(
    json.dumps(
        {
            "off": off,
            "faults": {case: find_known_fault(parse("unet3d/torch/" + case)) for case in cases},
        }
    )
)
