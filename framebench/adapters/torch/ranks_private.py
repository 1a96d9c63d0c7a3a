"""What of PyTorch's inside is used for ranks: the size of DistributedDataParallel's buckets, and to predict a rank's memory a
group of ranks that are not there, a tracker of what FSDP holds, and DistributedDataParallel on tensors without numbers. None of
it is a public API: tried with PyTorch 2.13, and a version that has it no more, or other, is told so."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

PARTS = {  # by the tracker's names
    "Sharded Param": "parameters", "Unsharded Param": "gathered parameters", "Buffer": "buffers", "Sharded Grad": "gradients",
    "Unsharded Grad": "gathered gradients", "Activation": "activations", "Temp": "temporaries",
    "All Gather": "all-gather buffers", "Reduce Scatter": "reduce-scatter buffers",
    "OptState": "optimizer states", "Inputs": "inputs",
}  # fmt: skip


class Gone(Exception):
    """This PyTorch lacks what ranks need; the message says what."""

    def __init__(self, what: str) -> None:
        super().__init__(f"PyTorch {torch.__version__} has no {what} as framebench knows it from 2.13, and it is no public API")


def fake_group(rank: int, ranks: int) -> None:
    """Be one rank of a group whose others never existed: collectives return at once, and move nothing."""
    try:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        torch.distributed.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    except (ImportError, AttributeError, ValueError) as error:
        raise Gone("fake process group (torch.testing._internal.distributed.fake_pg)") from error


class Tracked:
    """A context in which FSDP's memory is tracked, from what model and optimizer hold when it is entered."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer | None, inputs: tuple[Tensor, ...]) -> None:
        try:
            from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker

            self.tracker: Any = FSDPMemTracker(model, optimizer)
            self.tracker.track_inputs(inputs)
        except (ImportError, AttributeError, TypeError) as error:
            raise Gone("torch.distributed._tools.fsdp2_mem_tracker.FSDPMemTracker") from error

    def __enter__(self) -> Tracked:
        self.tracker.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.tracker.__exit__(*error)

    def peak(self) -> tuple[int, dict[str, int]]:
        """Bytes at the fullest moment, and their parts."""
        (snapshot,) = self.tracker.get_tracker_snapshot("peak").values()  # one device
        named = {str(getattr(key, "value", key)): size for key, size in snapshot.items()}
        total = named.pop("Total", None)
        if total is None or not named.keys() <= PARTS.keys() or sum(named.values()) != total:
            raise Gone(f"FSDPMemTracker that counts {', '.join(PARTS)}")
        return total, {PARTS[name]: size for name, size in named.items() if size}


class _Rebuilt:
    """The reducer of DistributedDataParallel, which after its first backward pass reads numbers to put its buckets into another
    order: on fake tensors there are none. The buckets stay as they are, of the same bytes."""

    def __init__(self, reducer: Any) -> None:
        self.reducer = reducer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reducer, name)

    def _rebuild_buckets(self) -> bool:
        return False


def replicate(model: nn.Module, **options: Any) -> nn.Module:
    """DistributedDataParallel on fake tensors: nothing is compared between ranks, and every reduction is done at once."""
    try:
        replica = nn.parallel.DistributedDataParallel(model, init_sync=False, **options)
        replica.reducer = _Rebuilt(replica.reducer)  # type: ignore[assignment]
    except (AttributeError, TypeError) as error:
        raise Gone("nn.parallel.DistributedDataParallel(init_sync=...).reducer") from error
    replica.register_comm_hook(None, reduced)
    return replica


def reduced(_, bucket):  # type: ignore[no-untyped-def]  # PyTorch compares annotations, and these would be strings
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def bucket_bytes(replicated: nn.Module) -> int:
    """Of the buckets in which DistributedDataParallel averages gradients; the text has a number for each of them."""
    try:
        logging_data = replicated._get_ddp_logging_data()  # type: ignore[operator]
        return sum(map(int, (logging_data.get("rebuilt_bucket_sizes") or logging_data["bucket_sizes"]).split(",")))
    except (AttributeError, KeyError, ValueError) as error:
        raise Gone("DistributedDataParallel._get_ddp_logging_data() with bucket_sizes") from error


def share_empty_chunks() -> None:
    """FSDP cuts every tensor into as many chunks as there are ranks, and makes an empty tensor for each rank that gets none:
    three quarters of the time for a thousand ranks. One empty tensor serves for all. Where PyTorch does it in another way it
    is left alone, and only takes longer."""
    import torch.distributed.fsdp._fully_shard._fsdp_param as module

    def chunk_with_empty(tensor: Tensor, num_chunks: int, dim: int) -> list[Tensor]:
        chunks = list(torch.chunk(tensor, num_chunks, dim=dim))
        return chunks + [chunks[0].new_empty(0)] * (num_chunks - len(chunks))

    if hasattr(module, "_chunk_with_empty"):
        module._chunk_with_empty = chunk_with_empty
