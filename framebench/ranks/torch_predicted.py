"""Predict the peak of one rank, however many there are, on PyTorch's fake tensors.

The process group is a fake one, too: no other rank exists, and nothing is computed.

FSDP moves its parameters between storages that it resizes: PyTorch's own tracker follows those
(`ranks_private.py`). Where every rank holds whole tensors, each storage is counted from its birth
to its death, as for a single process.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from framebench.adapters.torch import ranks_private as private
from framebench.adapters.torch.fake import FakeAdapter
from framebench.adapters.torch.fake_mode import make_fake_mode
from framebench.adapters.torch.ranks import make_mesh_of_ranks
from framebench.adapters.torch.storages import Storages
from framebench.ranks.sharding import find_fullest_rank
from framebench.suite.case import Case

NOTE = "no kernel's workspace, and nothing that a collective takes beside its buffers"


class FakeRank(FakeAdapter):
    """The step of one rank on fake tensors."""

    def __init__(self, case: Case) -> None:
        """Let DistributedDataParallel work without other ranks."""
        super().__init__(case)
        self.recipe.replicate = private.replicate


def predict_rank_bytes(case: Case) -> dict[str, Any]:
    """Return the bytes at the peak of a steady step in the fullest rank, and their parts.

    Raises RanksUnavailable.
    """
    rank = find_fullest_rank(case)
    private.join_fake_group(rank, case.ranks)
    private.share_empty_chunks()
    make_mesh_of_ranks("cpu")
    is_sharded = any(part.switch == "fsdp" for part in case.parts)
    with make_fake_mode():
        peak, parts = track_sharded(case) if is_sharded else count_storages(case)
    return {
        "rank": rank,
        "peak_bytes": peak,
        "parts": parts,
        "note": NOTE,
        "versions": {"torch": torch.__version__},
    }


def make_first_steps(adapter: FakeRank) -> None:
    """Make two steps: in training, the first one makes the optimizer's states."""
    for _ in range(2):
        adapter.step()
        adapter.release()
    gc.collect()


def track_sharded(case: Case) -> tuple[int, dict[str, int]]:
    """Return the peak of a step and its parts, by PyTorch's tracker, where FSDP divides tensors."""
    adapter = FakeRank(case)
    # before `Storages` counts: cutting each tensor into a chunk for each rank would take long
    adapter.build()
    optimizer = adapter.optimizer if case.scenario_spec.trains else None
    with Storages():  # it gives the optimizer the numbers that fake tensors do not have
        make_first_steps(adapter)
        model, inputs = adapter.model, adapter.inputs
        peak, parts = private.track_step(model, optimizer, inputs, adapter.step)
    # the tracker calls every tensor that is made during the update a state of the optimizer; those
    # that do not stay are temporaries
    states = []
    for tensor in adapter.state_tensors():
        states.append(tensor.to_local() if isinstance(tensor, DTensor) else tensor)
    state_bytes = count_bytes(states)
    temporary_bytes = parts.get("optimizer states", 0) - state_bytes
    if temporary_bytes > 0:
        parts["optimizer states"] = state_bytes
        parts["temporaries"] = parts.get("temporaries", 0) + temporary_bytes
    return peak, parts


def count_storages(case: Case) -> tuple[int, dict[str, int]]:
    """Return the peak of a step and its parts where every rank holds whole tensors."""
    with Storages() as storages:
        adapter = FakeRank(case)
        adapter.build()
        make_first_steps(adapter)
        parts = {
            "parameters": count_bytes(adapter.parameters()),
            "inputs": count_bytes(adapter.input_tensors()),
        }
        others = "activations and temporaries"
        if case.scenario_spec.trains:
            adapter.optimizer.zero_grad()
            parts["optimizer states"] = count_bytes(adapter.state_tensors())
            # what else lives between two steps, when no parameter has a gradient
            parts["gradient buckets"] = storages.alive - sum(parts.values())
            others = "activations, gradients and temporaries"
        storages.peak = storages.alive
        adapter.step()
    parts[others] = storages.peak - sum(parts.values())
    return storages.peak, parts


def count_bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of the tensors' storages, each counted once.

    Storages of fake tensors have no address, so their identity is that of the C++ object.
    """
    storages = [tensor.untyped_storage() for tensor in tensors]
    bytes_by_storage = {storage._cdata: storage.nbytes() for storage in storages}
    return sum(bytes_by_storage.values())
