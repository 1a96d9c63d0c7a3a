"""The peak of one rank, however many there are, without running: on fake tensors, in a fake group of processes.

FSDP moves its parameters between storages that it resizes: PyTorch's own tracker follows those (`ranks_private.py`). Where
every rank holds whole tensors, each storage is counted from its birth to its death, as for a single process.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import DTensor

from framebench.adapters.torch import ranks_private as private
from framebench.adapters.torch.fake import FakeAdapter
from framebench.adapters.torch.ranks import every_rank
from framebench.adapters.torch.ranks_private import Gone as Gone
from framebench.adapters.torch.storages import Storages
from framebench.suite.case import Case

BESIDE = "no kernel's workspace, and nothing that a collective takes beside its buffers"


class FakeRank(FakeAdapter):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.recipe.replicate = private.replicate


def predict(case: Case) -> dict[str, Any]:
    """Of a steady step: bytes at the peak of the fullest rank, and their parts. Raises private.Gone."""
    rank = _fullest(case)
    private.join_fake_group(rank, case.ranks)
    private.share_empty_chunks()
    every_rank("cpu")
    with FakeTensorMode():
        peak, parts = _tracked(case) if _sharded(case) else counted(case)
    return {"rank": rank, "peak_bytes": peak, "parts": parts, "note": BESIDE, "versions": {"torch": torch.__version__}}


def _sharded(case: Case) -> bool:
    return any(part.how == "fsdp" for part in case.parts)


def _fullest(case: Case) -> int:
    """Of a tensor that does not divide the first ranks have more. ZeroRedundancyOptimizer hands out whole tensors, the largest
    first, each to the rank that has least."""
    if not any(part.how == "zero_optimizer" for part in case.parts):
        return 0
    shares = [0] * case.ranks
    for size in sorted((math.prod(p.shape) for p in case.spec.params(case.config) if p.trainable), reverse=True):
        shares[shares.index(min(shares))] += size
    return shares.index(max(shares))


def built(case: Case) -> FakeRank:
    adapter = FakeRank(case)
    adapter.build()
    return adapter


def begin(adapter: FakeRank) -> None:
    """Two steps, of which the first of a training makes the optimizer's states."""
    for _ in range(2):
        adapter.step()
        adapter.release()
    gc.collect()


def _tracked(case: Case) -> tuple[int, dict[str, int]]:
    """What an operator makes during the update counts as a state to the tracker; those that stay are told apart."""
    adapter = built(case)  # in as many parts as there are ranks: not worth watching
    optimizer = adapter.optimizer if case.stage.trains else None
    with Storages():  # which answers the optimizer when it reads a number
        begin(adapter)
        with private.FsdpTracker(adapter.model, optimizer, adapter.inputs) as tracker:
            adapter.step()
    peak, parts = tracker.read_peak()
    states = size(t.to_local() if isinstance(t, DTensor) else t for t in adapter.state_tensors())
    if (passing := parts.get("optimizer states", 0) - states) > 0:
        parts |= {"optimizer states": states, "temporaries": parts.get("temporaries", 0) + passing}
    return peak, parts


def counted(case: Case) -> tuple[int, dict[str, int]]:
    """Without gradients, what is there between two steps and is neither parameter, state nor input is the buckets of
    DistributedDataParallel."""
    with Storages() as storages:
        adapter = built(case)
        begin(adapter)
        held = {"parameters": size(adapter.parameters()), "inputs": size(adapter.input_tensors())}
        inside = "activations and temporaries"
        if case.stage.trains:
            adapter.optimizer.zero_grad()
            held["optimizer states"] = size(adapter.state_tensors())
            held["gradient buckets"] = storages.alive - sum(held.values())
            inside = "activations, gradients and temporaries"
        storages.peak = storages.alive
        adapter.step()
    return storages.peak, held | {inside: storages.peak - sum(held.values())}


def size(tensors: Iterable[Tensor]) -> int:
    """Bytes of their storages, each once. A storage without numbers has no address."""
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())
