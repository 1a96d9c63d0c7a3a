"""How PyTorch shares a step among ranks: the strategies of `suite/catalog/ranks.py`. See `base.py`.

Each rank is a process, and its group of processes is there before a switch is called. What a single process has no use for is
imported where it is used: it would add to the memory and the start of every other case.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import nn

from framebench.adapters.base import Proof, Switches
from framebench.adapters.torch.adapter import TorchAdapter, make_optimizer
from models.spec import Optimizer

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

switch = Switches()


@cache
def every_rank(device: str) -> DeviceMesh:
    """All ranks in a row. Not on fake tensors: a mesh looks up its own place."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device, (dist.get_world_size(),))


def divide(run: TorchAdapter) -> None:
    """Each rank computes its part of the batch."""
    each = run.case.batch // dist.get_world_size()
    run.share = slice(dist.get_rank() * each, (dist.get_rank() + 1) * each)


@switch
def ddp(run: TorchAdapter, view: bool = False) -> Proof:
    divide(run)

    def attach(model: nn.Module) -> None:
        run.forward = run.replicate(model, gradient_as_bucket_view=view)

    run.on_model.append(attach)
    return lambda e: False  # what a rank holds and sends is counted by who runs several


@switch
def zero_optimizer(run: TorchAdapter) -> Proof:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def shared(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> Any:
        found = ZeroRedundancyOptimizer(params, partial(make_optimizer, o), **options)  # type: ignore[arg-type]
        found.state = found.optim.state  # of the tensors that this rank updates
        return found

    run.wrap_optimizer = shared
    return ddp(run)


@switch
def fsdp(run: TorchAdapter, reshard: bool) -> Proof:
    """Left to itself `fully_shard` keeps the outermost module's weights: they are needed next, in the backward pass."""
    from torch.distributed.fsdp import fully_shard

    divide(run)

    def attach(model: nn.Module) -> None:
        mesh = every_rank(run.where.type)
        for block in run.model_module.blocks_of(model):
            fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, reshard_after_forward=None if reshard else False)

    run.on_model.append(attach)
    return lambda e: False
