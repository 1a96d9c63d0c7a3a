"""Article B, why losses are scaled: gradients too small for float16 are zero, unless the loss is
multiplied first.
"""

import json

import torch

weights = torch.full((1000,), 1.0, dtype=torch.float16, requires_grad=True)


def zeros(scale):
    weights.grad = None
    (weights.float() * torch.logspace(-10, -6, 1000) * scale).sum().backward()
    return int((weights.grad == 0).sum())


scaler = torch.amp.GradScaler("cpu")
print(
    json.dumps(
        {
            "zeros": zeros(1.0),
            "zeros_scaled": zeros(scaler.get_scale() if scaler.is_enabled() else 65536.0),
        }
    )
)
