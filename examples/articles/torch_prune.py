"""Article B, pruning by `torch.nn.utils.prune.l1_unstructured`: while masked, and after
`prune.remove`.
"""

import json

import torch
from torch.nn.utils import prune

layer = torch.nn.Linear(512, 512)


def held():
    return sum(t.nbytes for t in (*layer.parameters(), *layer.buffers())) + (
        layer.weight.nbytes if prune.is_pruned(layer) else 0
    )


before = held()
prune.l1_unstructured(layer, name="weight", amount=0.5)
masked = held()
prune.remove(layer, "weight")
zeros = float((layer.weight == 0).float().mean())
print(json.dumps({"before": before, "masked": masked, "removed": held(), "zeros": zeros}))
