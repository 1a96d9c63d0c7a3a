"""Choose the level of a user's model whose recomputation saves most.

Where modules repeat at several levels, as encoders and the layers in them, one forward pass tells
what each would leave: the inputs of its blocks, what is saved outside of them, and what the
fullest block saves when it is computed again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from framebench.adapters.torch.observe import plain_tensors
from framebench.suite.trees import call_with, iterate_arrays

Storages = dict[int, int]  # bytes by storage


def find_best_level(model: nn.Module, inputs: Any, levels: list[list[Any]]) -> list[Any]:
    """Return the blocks of the level that leaves least saved for the backward pass.

    One forward pass of the model is made. The inputs are those of the file's batch.
    """
    watch = SavedByModule(model, inputs)
    watch.run()
    return min(levels, key=watch.count_left)


class SavedByModule:
    """What one forward pass saves for the backward pass, and in which modules."""

    def __init__(self, model: nn.Module, inputs: Any) -> None:
        self.model = model
        self.inputs = inputs
        self.running: list[nn.Module] = []
        # what is saved, with the modules that ran; alive, so that no storage is freed
        self.saved: list[tuple[Storages, tuple[nn.Module, ...]]] = []
        self.alive: list[Tensor] = []
        self.inputs_of: dict[nn.Module, Storages] = {}
        lasting = [*model.parameters(), *model.buffers(), *iterate_arrays(inputs)]
        self.lasting = set(find_storages(lasting))

    def run(self) -> None:
        """Make the forward pass."""
        handles: list[Any] = []
        for module in self.model.modules():
            handles.append(module.register_forward_pre_hook(self.enter, with_kwargs=True))
            handles.append(module.register_forward_hook(self.leave, always_call=True))
        try:
            with torch.autograd.graph.saved_tensors_hooks(self.save, lambda tensor: tensor):
                call_with(self.model, self.inputs)
        finally:
            for handle in handles:
                handle.remove()

    def enter(self, module: nn.Module, args: Any, named: Any) -> None:
        """Note that a module runs, and what it gets."""
        self.running.append(module)
        tensors = list(iterate_arrays((args, named)))
        self.alive += tensors
        self.inputs_of.setdefault(module, {}).update(find_storages(tensors))

    def leave(self, module: nn.Module, args: Any, output: Any) -> None:
        """Note that a module has run."""
        self.running.pop()

    def save(self, tensor: Tensor) -> Tensor:
        """Count a tensor that is saved."""
        self.alive.append(tensor)
        self.saved.append((find_storages([tensor]), tuple(self.running)))
        return tensor

    def count_left(self, blocks: list[nn.Module]) -> int:
        """Return the bytes that are saved at the fullest moment if these blocks are recomputed."""
        chosen = set(blocks)
        outside: Storages = {}
        inside: dict[nn.Module, Storages] = {block: {} for block in blocks}
        for storages, running in self.saved:
            within = [module for module in running if module in chosen]
            (inside[within[0]] if within else outside).update(storages)
        for block in blocks:
            outside |= self.inputs_of.get(block, {})
        fullest = max(self.count(inside[block], outside) for block in blocks)
        return self.count(outside, {}) + fullest

    def count(self, storages: Storages, others: Storages) -> int:
        """Return the bytes of storages that are neither lasting nor among others."""
        own = storages.keys() - self.lasting - others.keys()
        return sum(storages[storage] for storage in own)


def find_storages(tensors: list[Tensor]) -> Storages:
    """Return the storages of tensors."""
    storages: Storages = {}
    for tensor in tensors:
        for part in plain_tensors(tensor):
            storage = part.untyped_storage()
            storages[storage._cdata] = storage.nbytes()  # fake tensors have it too
    return storages
