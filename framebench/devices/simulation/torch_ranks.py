"""Simulate one rank of several GPUs. The others do not exist: collectives return at once.

The buffers of NCCL lie outside of PyTorch's allocator, and are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import _disable_current_modes

from framebench.adapters.torch import ranks_private as private
from framebench.devices.simulation.torch_device import (
    NAME,
    Replacement,
    do_nothing,
    register_backend,
    replace_attributes,
)
from framebench.devices.simulation.torch_watch import Watch


@contextmanager
def join_as_rank(rank: int, watch: Watch) -> Iterator[None]:
    """Make this process one of the ranks of a simulation in this context. Raises RanksUnavailable.

    A program may join the group itself, as it does on real GPUs, and make meshes of devices.
    """
    import torch.distributed._tools.fake_collectives  # noqa: F401 (shapes of collectives)

    register_backend()
    private.join_fake_group(rank, watch.ranks, backend=f"cpu:fake,{NAME}:fake")
    private.share_empty_chunks()
    init_replica = make_replica_init(DistributedDataParallel.__init__, watch)
    propagate = disable_modes(ShardingPropagator._propagate_tensor_meta_non_cached)
    replacements: list[Replacement] = [
        (dist, "init_process_group", do_nothing),  # the process is in a group already
        (DeviceMesh, "__init__", make_mesh_init(DeviceMesh.__init__)),
        (DistributedDataParallel, "__init__", init_replica),
        (ShardingPropagator, "_propagate_tensor_meta_non_cached", propagate),
    ]
    try:
        with replace_attributes(replacements):
            yield
    finally:
        dist.destroy_process_group()


def make_replica_init(init: Callable[..., None], watch: Watch) -> Callable[..., None]:
    """Return an `__init__` by which a replica on fake tensors asks no other rank.

    What it makes are buckets, which count as gradients.
    """

    def init_alone(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        made_before = len(watch.lives)
        init(self, *args, **{**kwargs, "init_sync": False})
        for bucket in watch.lives[made_before:]:
            bucket.kind = "gradients"
        private.reduce_at_once(self)

    return init_alone


def disable_modes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose calls no TorchDispatchMode sees.

    A DTensor finds out the shape that an operator returns by running it on fake tensors of the
    whole shape. The simulation's modes must not count these as memory.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return function(*args, **kwargs)

    return run


def make_mesh_init(init: Callable[..., None]) -> Callable[..., None]:
    """Return an `__init__` by which a mesh of CUDA devices is one of simulated devices.

    A mesh looks up its own rank among its ranks, for which it needs their numbers: they are made
    again without the simulation's modes. `init_device_mesh` counts them from 0.
    """

    def init_simulated(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        with _disable_current_modes():
            if "_rank_map" in kwargs:
                count = kwargs["_rank_map"].numel()
                kwargs["_rank_map"] = torch.arange(count, dtype=torch.int)
            init(self, NAME if device_type == "cuda" else device_type, *args, **kwargs)

    return init_simulated
