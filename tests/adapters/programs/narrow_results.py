"""What `NarrowResults` names of some functions of float64, each run as a user's step in float64
is.
"""

import json

import torch

from framebench.adapters.torch.modes import NarrowResults, WidenedCasts

x = torch.randn(4, 4, dtype=torch.float64)


def under_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        return x @ x


functions = {
    "float64 throughout": lambda: (x @ x).softmax(-1),
    "float() before a loss": lambda: (x @ x).float().mean(),
    "to(float32)": lambda: (x @ x).to(torch.float32) + 1,
    "zeros of a named type": lambda: x + torch.zeros(4, 4, dtype=torch.float32),
    "to(cfloat)": lambda: (x @ x).to(torch.cfloat) * 1j,
    "cfloat()": lambda: (x @ x).cfloat().abs(),
    "complex zeros of a named type": lambda: x + torch.zeros(4, 4, dtype=torch.cfloat),
    "a narrow part of a complex number": lambda: torch.view_as_complex(x.half()[..., :2].float()),
    "an autocast": under_autocast,
    "bfloat16()": lambda: x.bfloat16() @ x.bfloat16(),
    "half()": lambda: x.half() * 2,
    "a scalar": lambda: torch.tensor(1.0, dtype=torch.float32) * x,
}
found = {}
for name, function in functions.items():
    with WidenedCasts(), NarrowResults() as narrow:
        function()
    found[name] = narrow.operation
print(json.dumps(found))
