"""Compare two kinds of mixed precision on GPUs that share a Transformer by FSDP.

`python examples/fsdp_mixed_precision.py`, with PyTorch 2.13.

Autocast keeps a copy of each weight in 16 bits until the forward pass ends, on every rank. FSDP's
own mixed precision gathers weights in 16 bits and frees them after each block.
"""

from functools import partial

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from framebench.devices import GiB, simulate

RANKS = 4
LAYERS, WIDTH, HEADS = 40, 5120, 40  # 12.6 B parameters
AUTOCAST = MixedPrecisionPolicy()  # FSDP itself changes no type
OWN = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList()
        for _ in range(LAYERS):
            block = nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True
            )
            self.blocks.append(block)

    def forward(self, hidden):
        for block in self.blocks:
            hidden = checkpoint(block, hidden, use_reentrant=False)
        return hidden


def make_step(policy, device):
    mesh = init_device_mesh("cuda", (RANKS,))
    with torch.device("meta"):  # no GPU has room for all weights
        model = Model()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device=device)  # a part of each weight
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.zeros(1, 1024, WIDTH, device=device)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=policy is AUTOCAST):
            hidden = model(batch)
        hidden.float().mean().backward()
        optimizer.step()

    return step


for name, policy in (("autocast", AUTOCAST), ("FSDP's own", OWN)):
    answer = simulate(partial(make_step, policy), "h200-141gb", ranks=RANKS)
    print(f"{name}: {answer.needs / GiB:.1f} GiB on each of {RANKS} GPUs")
