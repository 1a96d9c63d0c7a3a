"""Use private APIs of PyTorch for ranks.

They give the size of DistributedDataParallel's buckets. For predictions of a rank's memory they
give a group whose other ranks do not exist, a tracker of FSDP's memory, and DistributedDataParallel
on fake tensors. They were tested with PyTorch 2.13; `RanksUnavailable` says what another version
lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from framebench.adapters.base import RanksUnavailable

PARTS = {  # by the tracker's names
    "Sharded Param": "parameters",
    "Unsharded Param": "gathered parameters",
    "Buffer": "buffers",
    "Sharded Grad": "gradients",
    "Unsharded Grad": "gathered gradients",
    "Activation": "activations",
    "Temp": "temporaries",
    "All Gather": "all-gather buffers",
    "Reduce Scatter": "reduce-scatter buffers",
    "OptState": "optimizer states",
    "Inputs": "inputs",
}


@contextmanager
def require(what: str) -> Iterator[None]:
    """Raise RanksUnavailable if this PyTorch lacks an API that is used in this context."""
    try:
        yield
    except (ImportError, AttributeError, TypeError, KeyError, ValueError) as error:
        raise RanksUnavailable(
            f"PyTorch {torch.__version__} has no {what} as framebench knows it from 2.13, "
            f"and it is no public API"
        ) from error


def join_fake_group(rank: int, ranks: int, backend: str = "fake") -> None:
    """Join a process group in which only this rank exists.

    Raises RanksUnavailable. Collectives return at once, and move nothing. For a device that PyTorch
    does not have itself, `backend` is, for instance, `cpu:fake,gpu:fake`.
    """
    with require("fake process group (torch.testing._internal.distributed.fake_pg)"):
        from torch.testing._internal.distributed.fake_pg import FakeStore

        store = FakeStore()
        torch.distributed.init_process_group(backend, rank=rank, world_size=ranks, store=store)


def track_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    inputs: tuple[Tensor, ...],
    step: Callable[[], None],
) -> tuple[int, dict[str, int]]:
    """Make a step; return the peak of the bytes that FSDP holds in it, and the peak's parts.

    PyTorch's tracker also counts what model and optimizer hold before the step. Raises
    RanksUnavailable.
    """
    with require("torch.distributed._tools.fsdp2_mem_tracker.FSDPMemTracker"):
        from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker

        tracker: Any = FSDPMemTracker(model, optimizer)
        tracker.track_inputs(inputs)
    with tracker:
        step()
    (snapshot,) = tracker.get_tracker_snapshot("peak").values()  # one device
    # all keys but the total's are members of an enumeration
    sizes = {getattr(key, "value", key): size for key, size in snapshot.items()}
    with require(f"FSDPMemTracker that counts {', '.join(PARTS)}"):
        total = int(sizes.pop("Total"))
        parts = {PARTS[name]: size for name, size in sizes.items() if size}
    return total, parts


class _KeepsBuckets:
    """A reducer of DistributedDataParallel that does not rebuild its buckets.

    After its first backward pass a reducer reads numbers to put its buckets into another order, and
    fake tensors have none. The buckets have the same bytes in any order.
    """

    def __init__(self, reducer: Any) -> None:
        """Wrap a reducer, all other attributes of which stay reachable."""
        self.reducer = reducer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reducer, name)

    def _rebuild_buckets(self) -> bool:
        return False


def replicate(model: nn.Module, **options: Any) -> nn.Module:
    """Return DistributedDataParallel of a model on fake tensors.

    Nothing is compared between ranks, and every reduction is done at once. Raises
    RanksUnavailable.
    """
    with require("nn.parallel.DistributedDataParallel(init_sync=...).reducer"):
        replica = nn.parallel.DistributedDataParallel(model, init_sync=False, **options)
        reduce_at_once(replica)
    return replica


def reduce_at_once(replica: nn.parallel.DistributedDataParallel) -> None:
    """Keep a replica on fake tensors from rebuilding its buckets, and reduce each at once."""
    replica.reducer = _KeepsBuckets(replica.reducer)  # type: ignore[assignment]
    replica.register_comm_hook(None, return_bucket)


# without annotations, since PyTorch compares them, and here they would be strings
def return_bucket(_, bucket):  # type: ignore[no-untyped-def]
    """Return a bucket as reduced."""
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def measure_bucket_bytes(replica: nn.Module) -> int:
    """Return the bytes of the buckets in which DistributedDataParallel averages gradients.

    Raises RanksUnavailable.
    """
    with require("DistributedDataParallel._get_ddp_logging_data() with bucket_sizes"):
        data = replica._get_ddp_logging_data()  # type: ignore[operator]
        sizes = data.get("rebuilt_bucket_sizes") or data["bucket_sizes"]
        total = sum(int(size) for size in sizes.split(","))
    return total


def share_empty_chunks() -> None:
    """Have FSDP use one empty tensor for all ranks that get no part of a weight.

    FSDP cuts every tensor into as many chunks as there are ranks, and makes an empty tensor for
    each rank that gets none: three quarters of the time for a thousand ranks. Where PyTorch does it
    in another way it is left alone, and only takes longer.
    """
    import torch.distributed.fsdp._fully_shard._fsdp_param as module

    def chunk_with_empty(tensor: Tensor, num_chunks: int, dim: int) -> list[Tensor]:
        chunks = list(torch.chunk(tensor, num_chunks, dim=dim))
        return chunks + [chunks[0].new_empty(0)] * (num_chunks - len(chunks))

    if hasattr(module, "_chunk_with_empty"):
        module._chunk_with_empty = chunk_with_empty
