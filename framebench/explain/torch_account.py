"""PyTorch's account of one step: every storage that an operator makes, from its birth to its death, with who made it.

What kernels allocate inside themselves is not seen (oneDNN's reordered copies, unfolded volumes), nor what fusion by
torch.compile leaves out. The layer of a backward operator is that of the forward operator whose node it belongs to: autograd
numbers its nodes in the order of their making, and hooks note the number at which each module was entered and left.
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves

from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.storages import Storages
from framebench.explain.account import Account
from framebench.instruments.memory_timeline import Value

HOW = (
    "every storage that an operator made, until it was dropped; an event is an operator or a storage dropped. What kernels "
    "allocate inside themselves is not seen"
)


class Labelled(Storages):
    """With phase, layer and kind. A value is called by what it became: a saved activation, even before it was saved."""

    def __init__(self, adapter: TorchAdapter) -> None:
        super().__init__()
        self.account = Account()
        self.values: dict[int, Value] = {}  # those alive, by storage
        self.model = adapter.model
        self.path: list[str] = []  # of the modules being run, the innermost last
        self.entered: list[tuple[int, str]] = [(0, "")]  # (number of the next autograd node, module from there on)
        self.names = {p: name for name, p in self.model.named_parameters()}
        self.updating = False
        self.account.turn("forward")
        for kind, layer, tensor in _present(adapter):
            if self.value_of(tensor) is None:
                self.begin(tensor, Value(kind, layer, "before"))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.account.events += 1
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self.made(tensor, func._schema.name.removeprefix("aten::"))
        return out

    def value_of(self, tensor: Tensor) -> Value | None:
        return self.values.get(tensor.untyped_storage()._cdata)

    def begin(self, tensor: Tensor, value: Value) -> None:
        storage = tensor.untyped_storage()
        value.size, value.born = storage.nbytes(), self.account.events
        self.account.values.append(value)
        self.values[storage._cdata] = value
        self.born(storage)

    def died(self, key: int, size: int) -> None:
        super().died(key, size)
        self.account.events += 1
        self.values.pop(key).died = self.account.events

    def made(self, tensor: Tensor, by: str) -> None:
        node: Any = torch._C._current_autograd_node()
        if node is not None and not self.updating:
            self.account.turn("backward")
        value = self.value_of(tensor)
        if value is None:
            again = self.account.phase == "backward" and self.path  # a module runs while the gradient is computed
            value = Value("recomputed" if again else "temporary", self.layer(node), self.account.phase, by)
            self.begin(tensor, value)
        if node is not None and node.name() == "torch::autograd::AccumulateGrad" and value.kind == "temporary":
            value.kind, value.layer = "gradient", _module_of(self.names.get(node.variable, ""))

    def layer(self, node: Any) -> str:
        if self.path:
            return self.path[-1]
        if node is None:
            return "(optimizer)" if self.updating else "(loss)"
        if node.name() == "torch::autograd::AccumulateGrad":
            return _module_of(self.names.get(node.variable, ""))
        return self.entered[bisect_right(self.entered, node._sequence_nr(), key=lambda e: e[0]) - 1][1]

    def __enter__(self) -> Labelled:
        self.stack = ExitStack()
        for name, module in self.model.named_modules():
            enter = module.register_forward_pre_hook(partial(self.enter, name or "(model)"))
            # also when recomputation stops early, by an exception
            leave = module.register_forward_hook(self.leave, always_call=True)
            self.stack.callback(enter.remove)
            self.stack.callback(leave.remove)
        for hook, begins in ((register_optimizer_step_pre_hook, True), (register_optimizer_step_post_hook, False)):
            self.stack.callback(hook(partial(self.update, begins)).remove)
        self.stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self.save, lambda t: t))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.stack.close()
        for watch in self.known.values():
            watch.detach()

    def enter(self, name: str, *_: Any) -> None:
        if not self.path and torch._C._current_autograd_node() is None:
            self.account.turn("forward")
        self.path.append(name)
        self.note()

    def leave(self, *_: Any) -> None:
        self.path.pop()
        self.note()

    def note(self) -> None:
        self.entered.append((torch.autograd._get_sequence_nr(), self.path[-1] if self.path else "(loss)"))

    def update(self, begins: bool, *_: Any) -> None:
        self.updating = begins
        self.account.turn("optimizer")

    def save(self, tensor: Tensor) -> Tensor:
        value = self.value_of(tensor)
        if value and value.kind == "temporary":
            value.kind = "saved for backward"
        return tensor.detach()  # the tensor itself would hold the node that holds it


def _present(adapter: TorchAdapter) -> list[tuple[str, str, Tensor]]:
    """Every tensor there is between two steps: kind, layer, tensor. Those nobody named come last."""
    parameters = list(adapter.model.named_parameters())
    labelled_tensors: list[tuple[str, str, Tensor]] = [("parameter", _module_of(name), p) for name, p in parameters]
    labelled_tensors += [("gradient", _module_of(name), p.grad) for name, p in parameters if p.grad is not None]
    labelled_tensors += [("buffer", _module_of(name), b) for name, b in adapter.model.named_buffers()]
    if adapter.case.stage.trains:
        states = [(p, state) for p, state in adapter.optimizer.state.items()]
        names = {p: name for name, p in parameters}
        labelled_tensors += [
            ("optimizer state", _module_of(names.get(p, "")), t) for p, s in states for t in s.values() if isinstance(t, Tensor)
        ]
    labelled_tensors += [("input", "", t) for t in adapter.input_tensors()]
    return labelled_tensors + [("other", "", t) for t in gc.get_objects() if type(t) in (Tensor, nn.Parameter)]


def _module_of(parameter: str) -> str:
    return parameter.rpartition(".")[0] or "(model)"


def account(adapter: TorchAdapter) -> dict[str, Any]:
    """Of one more step; the steps before have made the optimizer's states."""
    adapter.release()
    gc.collect()
    with Labelled(adapter) as storages:
        adapter.step()
        output = storages.value_of(adapter.output)
        if output and output.kind == "temporary":
            output.kind = "output"
    return storages.account.as_dict() | {"how": HOW}
