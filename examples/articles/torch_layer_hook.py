"""Article C, a forward hook that prints its module's output in MB, registered on the model."""

import json
from contextlib import redirect_stdout
from io import StringIO

import torch


def memory_hook(module, input, output):
    print(
        f"{module.__class__.__name__} output memory: "
        f"{output.element_size() * output.nelement() / 1024**2:.2f}MB"
    )


model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(3)))
model.register_forward_hook(memory_hook)
printed = StringIO()
with redirect_stdout(printed):
    output = model(torch.randn(1024, 256))
lines = printed.getvalue().splitlines()
told = float(lines[-1].split()[-1].removesuffix("MB")) * 1024**2
print(json.dumps({"lines": len(lines), "error_bytes": abs(told - output.nbytes)}))
