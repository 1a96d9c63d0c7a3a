"""What rounding at random does to a tensor, by its kind: the largest relative move, their spread, and the share that stayed."""

import json

import torch
from framebench.features.user_model.torch_rounding import POOL, Rounds

from framebench.adapters.torch.still import Still

ROUNDOFF = 2.0**-8


def moved(tensor: torch.Tensor) -> dict[str, float]:
    before = tensor.clone()
    rounds = Rounds(ROUNDOFF, 1, torch.device("cpu"))
    copied = rounds.copied(tensor, 0)
    assert torch.equal(copied, before)
    assert copied.stride() == tensor.clone().stride()
    assert copied.data_ptr() != tensor.data_ptr()
    rounds.moved(tensor)
    off = (tensor / before - 1) / ROUNDOFF
    return {"largest": float(off.abs().max()), "spread": float(off.std()), "still": float((tensor == before).float().mean())}


wide = torch.rand(3, POOL // 2 + 5) + 1
kinds = {
    "small": torch.rand(64, 64) + 1,
    "large": wide.clone(),
    "transposed": wide.clone().T,
    "channels last": (torch.rand(8, 32, 70, 70) + 1).to(memory_format=torch.channels_last),
    "a part of one": (torch.rand(3, POOL) + 1)[:, 5:],
    "one number": torch.tensor(2.0),
}
with Still():  # where what the model draws is its mean
    without_chance = moved(kinds["small"].clone())
print(json.dumps({"without chance": without_chance} | {name: moved(tensor) for name, tensor in kinds.items()}))
