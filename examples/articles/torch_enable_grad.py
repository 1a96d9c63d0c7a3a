"""Article C, a graph in spite of `no_grad`: of a weight that asks for gradients, of a layer that
changes its weight in place, and, as a control, of a layer that calls `enable_grad`.
"""

import json

import torch

layer, x = torch.nn.Linear(8, 8), torch.randn(2, 8)


class Modifying(torch.nn.Module):
    def forward(self, x):
        layer.weight.mul_(1.5)
        return layer(x)


class Enabling(torch.nn.Module):
    def forward(self, x):
        with torch.enable_grad():
            return layer(x)


with torch.no_grad():
    plain, modified, enabled = layer(x), Modifying()(x), Enabling()(x)
print(
    json.dumps(
        {
            "graphs_of_a_weight": int(plain.grad_fn is not None),
            "graphs_of_a_modified_weight": int(
                modified.grad_fn is not None or layer.weight.grad_fn is not None
            ),
            "graphs_of_enable_grad": int(enabled.grad_fn is not None),
        }
    )
)
