"""Article B, checkpointing of a segment, without `use_reentrant`: weights that get no gradient.

The input asks for no gradient, as data do; or it comes from a layer that trains.
"""

import json
import warnings

import torch
from torch.utils.checkpoint import checkpoint

model_segment = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
head = torch.nn.Linear(8, 1)


def custom_forward(x):
    return model_segment(x)


def describe_without_gradient(input_tensor):
    model_segment.zero_grad(set_to_none=True)
    output = checkpoint(custom_forward, input_tensor)
    head(output).sum().backward()
    return sum(p.grad is None for p in model_segment.parameters())


data = torch.randn(4, 8)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    without = describe_without_gradient(data)
warned = len(said)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    after_a_layer = describe_without_gradient(torch.nn.Linear(8, 8)(data))
print(
    json.dumps(
        {
            "warnings": warned,
            "weights_without_gradient": without,
            "weights_without_gradient_after_a_layer": after_a_layer,
            "weights": len(list(model_segment.parameters())),
        }
    )
)
