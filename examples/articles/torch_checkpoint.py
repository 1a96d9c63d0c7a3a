"""Article B, checkpointing of a segment: without `use_reentrant`, of an input that asks for no
gradient.
"""

import json
import warnings

import torch
from torch.utils.checkpoint import checkpoint

segment = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
head = torch.nn.Linear(8, 1)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    out = checkpoint(segment, torch.randn(4, 8))
head(out).sum().backward()
without = sum(p.grad is None for p in segment.parameters())
print(
    json.dumps(
        {
            "warnings": len(said),
            "weights_without_gradient": without,
            "weights": len(list(segment.parameters())),
        }
    )
)
