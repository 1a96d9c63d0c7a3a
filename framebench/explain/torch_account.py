"""Account for one step of PyTorch: every storage that an operator makes, from birth to death.

What kernels allocate inside themselves is not seen (oneDNN's reordered copies, unfolded volumes),
nor what fusion by torch.compile leaves out. The layer of a backward operator is that of the forward
operator whose node it belongs to: autograd numbers its nodes in the order in which they are made,
and hooks note the number at which each module was entered and left.
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._pytree import tree_leaves

from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.observe import follow_saved, list_plain_tensors
from framebench.adapters.torch.storages import Storages
from framebench.explain.account import Account
from framebench.instruments.memory_timeline import Value

HOW = (
    "every storage that an operator made, until it was dropped; an event is an operator or a "
    "storage dropped. What kernels allocate inside themselves is not seen"
)
ACCUMULATE_GRAD = "torch::autograd::AccumulateGrad"  # the node that writes a parameter's gradient


class ModuleEntry(NamedTuple):
    """The module that makes the autograd nodes from a number on."""

    next_node: int
    module: str


class StorageAccount(Storages):
    """A context in which the storages of one step go into an account, with phase, layer and kind.

    A value has one kind for its whole life, the last one it is given: an activation that is saved
    counts as saved even before that.
    """

    def __init__(self, adapter: TorchAdapter) -> None:
        """Start an account with the storages that are there before the step."""
        super().__init__()
        self.account = Account()
        self.values: dict[int, Value] = {}  # the values alive, by storage
        self.model = adapter.model
        self.path: list[str] = []  # the modules that run, the innermost last
        self.entered = [ModuleEntry(next_node=0, module="")]
        self.names = {parameter: name for name, parameter in self.model.named_parameters()}
        self.is_updating = False
        self.account.enter_phase("forward")
        # two tensors may share a storage: the first label is the more telling one
        for kind, layer, tensor in list_tensors(adapter):
            for part in list_plain_tensors(tensor):
                if self.find_value(part) is None:
                    self.add(part, Value(kind, layer, "before"))

    def __enter__(self) -> StorageAccount:
        """Hook into the optimizer, the modules and what autograd saves."""
        self.stack = ExitStack()
        hooks: list[Any] = [
            register_optimizer_step_pre_hook(partial(self.note_update, is_updating=True)),
            register_optimizer_step_post_hook(partial(self.note_update, is_updating=False)),
        ]
        for name, module in self.model.named_modules():
            enter = partial(self.enter_module, name or "(model)")
            hooks.append(module.register_forward_pre_hook(enter))
            # called even after an exception, by which a recomputation stops early
            hooks.append(module.register_forward_hook(self.leave_module, always_call=True))
        for hook in hooks:
            self.stack.callback(hook.remove)
        self.stack.enter_context(follow_saved(self.save))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        """Remove all hooks, and stop watching the storages that are alive."""
        super().__exit__(*error)
        self.stack.close()
        # tensors that are freed after the step must not count as its events
        for finalizer in self.finalizers.values():
            finalizer.detach()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.account.events += 1
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                for part in list_plain_tensors(tensor):
                    self.note_result(part, func._schema.name.removeprefix("aten::"))
        return out

    def find_value(self, tensor: Tensor) -> Value | None:
        """Return the value in the storage of a plain tensor (`list_plain_tensors`), or None."""
        return self.values.get(tensor.untyped_storage()._cdata)

    def add(self, tensor: Tensor, value: Value) -> None:
        """Begin the life of a value in a tensor's storage."""
        storage = tensor.untyped_storage()
        value.size = storage.nbytes()
        value.born = self.account.events
        self.account.values.append(value)
        self.values[storage._cdata] = value
        self.add_storage(storage)

    def remove_storage(self, key: int, size: int) -> None:
        """End the life of the value in a storage that was dropped."""
        super().remove_storage(key, size)
        self.account.events += 1
        self.values.pop(key).died = self.account.events

    def note_result(self, tensor: Tensor, operator: str) -> None:
        """Add a result of an operator, unless its storage was added before; label a gradient."""
        node: Any = torch._C._current_autograd_node()  # None outside of the backward pass
        if node is not None and not self.is_updating:
            self.account.enter_phase("backward")
        value = self.find_value(tensor)
        if value is None:
            # a module that runs while gradients are computed is being recomputed
            is_recomputed = self.account.phase == "backward" and self.path
            kind = "recomputed" if is_recomputed else "temporary"
            value = Value(kind, self.find_layer(node), self.account.phase, operator)
            self.add(tensor, value)
        if node is not None and node.name() == ACCUMULATE_GRAD and value.kind == "temporary":
            value.kind = "gradient"
            value.layer = self.find_layer_of_parameter(node)

    def find_layer(self, node: Any) -> str:
        """Return the module that runs, or whose forward pass made this backward node."""
        if self.path:
            return self.path[-1]
        if node is None:
            return "(optimizer)" if self.is_updating else "(loss)"
        if node.name() == ACCUMULATE_GRAD:
            return self.find_layer_of_parameter(node)
        # the node has the number of the forward operator that it belongs to
        place = bisect_right(self.entered, node._sequence_nr(), key=attrgetter("next_node"))
        return self.entered[place - 1].module

    def find_layer_of_parameter(self, node: Any) -> str:
        """Return the module of the parameter whose gradient this node writes."""
        return find_module_of(self.names.get(node.variable, ""))

    def enter_module(self, name: str, *_: Any) -> None:
        """Note that a module begins to run."""
        if not self.path and torch._C._current_autograd_node() is None:
            self.account.enter_phase("forward")
        self.path.append(name)
        self.note_module()

    def leave_module(self, *_: Any) -> None:
        """Note that the innermost module has ended."""
        self.path.pop()
        self.note_module()

    def note_module(self) -> None:
        """Note which module makes the autograd nodes from now on."""
        module = self.path[-1] if self.path else "(loss)"
        self.entered.append(ModuleEntry(torch.autograd._get_sequence_nr(), module))

    def note_update(self, *_: Any, is_updating: bool) -> None:
        """Note that the optimizer begins its step, or has ended it."""
        self.is_updating = is_updating
        self.account.enter_phase("optimizer")

    def save(self, tensor: Tensor) -> Tensor:
        """Label a tensor that autograd saves, and return the tensor to save in its place."""
        for part in list_plain_tensors(tensor):
            value = self.find_value(part)
            # a parameter or an input that is saved is there anyway
            if value and value.kind == "temporary":
                value.kind = "saved for backward"
        return tensor.detach()  # the tensor itself would hold the node that holds it


def list_tensors(adapter: TorchAdapter) -> Iterator[tuple[str, str, Tensor]]:
    """Yield kind, layer and tensor of every tensor that there is between two steps.

    Tensors without a name come last. A tensor may be yielded more than once; its first label
    counts.
    """
    layers = {}  # by parameter
    for name, parameter in adapter.model.named_parameters():
        layers[parameter] = find_module_of(name)
        yield "parameter", layers[parameter], parameter
        if parameter.grad is not None:
            yield "gradient", layers[parameter], parameter.grad
    for name, buffer in adapter.model.named_buffers():
        yield "buffer", find_module_of(name), buffer
    if adapter.case.scenario_spec.trains:
        for parameter, state in adapter.optimizer.state.items():
            for tensor in state.values():
                if isinstance(tensor, Tensor):
                    yield "optimizer state", layers.get(parameter, "(model)"), tensor
    for tensor in adapter.input_tensors():
        yield "input", "", tensor
    for instance in gc.get_objects():
        if type(instance) in (Tensor, nn.Parameter):
            yield "other", "", instance


def find_module_of(parameter: str) -> str:
    """Return the path of the module that has this parameter."""
    return parameter.rpartition(".")[0] or "(model)"


def explain_step(adapter: TorchAdapter) -> dict[str, Any]:
    """Make one more step and return its account, as fields of an `Explanation`.

    The steps before have made the optimizer's states.
    """
    adapter.release()
    gc.collect()
    with StorageAccount(adapter) as storages:
        adapter.step()
        output = storages.find_value(adapter.output)
        if output and output.kind == "temporary":
            output.kind = "output"
    return {**storages.account.as_dict(), "how": HOW}
