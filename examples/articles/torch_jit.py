"""Article C, models that share weights by `torch.jit.script`, and the same without it."""

import json

import torch

trunk = torch.nn.Linear(512, 512)
plain = [torch.nn.Sequential(trunk, torch.nn.Linear(512, 1)) for _ in range(2)]
scripted = [torch.jit.script(model) for model in plain]
apart = [
    torch.jit.script(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 1)))
    for _ in range(2)
]


def held(models):
    """Bytes of the storages behind all weights, each once."""
    tensors = [p for model in models for p in model.parameters()]
    return sum(
        {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values()
    )


print(json.dumps({"scripted": held(scripted), "plain": held(plain), "scripted_apart": held(apart)}))
