"""Jittor's account of one step: every block that its variables take from the pool and give back,
and who made them.

The allocator of `jittor_probe.cc` notes them; Jittor's own stack traces do not work in Python 3.11.
Nodes of the graph are numbered in the order in which they are made, and computed only later, when
the graph runs. So notes of the number at which a module, the backward pass and the update were
entered and left tell where a variable is from.
"""

from __future__ import annotations

import gc
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jittor as jt
from jittor import Var

from framebench.adapters.jittor.adapter import RUNNING, JittorAdapter
from framebench.adapters.jittor.probe import load_probe
from framebench.explain.account import Account
from framebench.instruments.memory_timeline import Value
from framebench.suite.trees import iterate_arrays

HOW = (
    "blocks that variables took from the pool, until given back, by the bytes of the variable that "
    "took it; an event is one or the other. The graph runs as a whole, so a phase is that of the "
    "variable being made. A backward variable has the layer of the latest value or weight that it "
    "is computed from"
)
Notes = list[tuple[int, str]]  # the number of the next node, and what was entered there


class Label(NamedTuple):
    """What a variable is that was there before the step."""

    kind: str
    layer: str


class Origins:
    """Where the nodes of a step come from: which module and which phase made them."""

    def __init__(self, adapter: JittorAdapter) -> None:
        self.adapter = adapter
        self.names = {id(module): name for name, module in adapter.model.named_modules()}
        self.path: list[str] = []  # the modules that run, the innermost last
        self.layers: Notes = []
        self.phases: Notes = [(0, "before"), (load_probe().node(), "forward")]
        self.phase = "forward"
        self.gradients: dict[int, str] = {}  # layer by variable
        self.labels = label_variables(adapter)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Note in here what modules, the backward pass and the update make."""
        original_call = jt.Module.__call__  # all modules of a model are called by it

        def call(module: Any, *arguments: Any, **options: Any) -> Any:
            with self.in_module(module):
                return original_call(module, *arguments, **options)

        jt.Module.__call__ = call
        optimizer = getattr(self.adapter, "optimizer", None)
        if optimizer:
            # set on the object, so that deleting them brings the methods of the class back
            optimizer.backward = self.wrap_backward(optimizer, optimizer.backward)
            optimizer.step = self.wrap_update(optimizer.step)
        yield
        jt.Module.__call__ = original_call
        if optimizer:
            del optimizer.backward, optimizer.step

    @contextmanager
    def in_module(self, module: Any) -> Iterator[None]:
        """Note that a module runs in here; one without a name counts as the module around it."""
        around = self.path[-1] if self.path else ""
        self.path.append(self.names.get(id(module), around) or "(model)")
        self.layers.append((load_probe().node(), self.path[-1]))
        yield
        self.path.pop()
        self.layers.append((load_probe().node(), around))

    @contextmanager
    def in_phase(self, phase: str) -> Iterator[None]:
        """Note that a phase of the step is in here."""
        before = self.phase
        self.phase = phase
        self.phases.append((load_probe().node(), phase))
        yield
        self.phase = before
        self.phases.append((load_probe().node(), before))

    def wrap_backward(self, optimizer: Any, original: Callable[..., None]) -> Callable[..., None]:
        """Return the optimizer's `backward` that notes which nodes it makes, and which of them are
        gradients.
        """

        def run_backward(*arguments: Any) -> None:
            if all(phase != "backward" for _, phase in self.phases):
                # what is made from now on is looked up in what was made before
                load_probe().backward()
            with self.in_phase("backward"):
                original(*arguments)
            for group in optimizer.param_groups:
                for parameter, gradient in zip(group["params"], group["grads"]):
                    label = self.labels.get(node_number(parameter), Label("", ""))
                    self.gradients[node_number(gradient)] = label.layer

        return run_backward

    def wrap_update(self, original: Callable[..., None]) -> Callable[..., None]:
        """Return the optimizer's `step` that notes which nodes it makes."""

        def run_update(*arguments: Any) -> None:
            with self.in_phase("optimizer"):
                original(*arguments)

        return run_update

    def classify_variable(self, node: int, source: int) -> Value:
        """Return a value with the kind, layer and phase of a variable that takes memory.

        Args:
            node: Number of the graph node; 0 for memory that no variable owns.
            source: The latest node before the backward pass that the variable is computed from.
        """
        if not node:
            return Value(kind="other", layer="", phase="forward")
        phase = find_note(self.phases, node)
        if phase == "before":  # made before the step, and only now computed
            return Value(kind="other", layer="", phase="before")
        if phase == "optimizer":
            return Value(kind="temporary", layer="(optimizer)", phase=phase)
        if phase == "forward":
            layer = find_note(self.layers, node)
            return Value(kind="temporary", layer=layer or "(loss)", phase=phase)
        return self.classify_backward(node, source)

    def classify_backward(self, node: int, source: int) -> Value:
        """Return a value with the kind and layer of a variable that the backward pass made.

        See `classify_variable` for the arguments.
        """
        if node in self.gradients:
            return Value(kind="gradient", layer=self.gradients[node], phase="backward")
        layer = find_note(self.layers, node)
        if layer:  # a module that runs in the backward pass is recomputed
            return Value(kind="recomputed", layer=layer, phase="backward")
        label = self.labels.get(source)
        layer = label.layer if label else find_note(self.layers, source)
        return Value(kind="temporary", layer=layer or "(loss)", phase="backward")


def node_number(variable: Var) -> int:
    """Return the number of a variable in the graph."""
    matched = re.match(r"Var\((\d+)", variable.debug_msg())
    assert matched
    return int(matched[1])


def find_note(notes: Notes, node: int) -> str:
    """Return what was entered last before this node was made; empty if nothing was."""
    # a note is made before the next node
    place = bisect_right(notes, node - 1, key=lambda note: note[0])
    return notes[place - 1][1] if place else ""


def label_variables(adapter: JittorAdapter) -> dict[int, Label]:
    """Return what the variables are that model, optimizer and inputs refer to now, by node."""
    labels: dict[int, Label] = {}
    layers: dict[int, str] = {}  # by the id of a parameter
    for name, parameter in adapter.model.named_parameters():
        layer = name.rpartition(".")[0]
        layers[id(parameter)] = layer
        labels[node_number(parameter)] = Label(
            "buffer" if name.endswith(RUNNING) else "parameter", layer
        )
    optimizer = getattr(adapter, "optimizer", None)
    for group in getattr(optimizer, "param_groups", []):
        for key, kind in (
            ("values", "optimizer state"),
            ("m", "optimizer state"),
            ("grads", "gradient"),
        ):
            for parameter, variable in zip(group["params"], group.get(key) or []):
                labels[node_number(variable)] = Label(kind, layers.get(id(parameter), ""))
    for variable in iterate_arrays(adapter.inputs):
        labels[node_number(variable)] = Label("input", "")
    return labels


def explain_step(adapter: JittorAdapter) -> dict[str, Any]:
    """Make one more step, run the graph that it leaves, and return its account, as fields of an
    `Explanation`.
    """
    adapter.release()
    adapter.synchronize()
    gc.collect()
    origins = Origins(adapter)
    account = Account()
    account.enter_phase("forward")
    alive = add_present(account, origins)
    load_probe().begin()
    with origins.watch():
        adapter.step()
        adapter.synchronize()
    made = replay_blocks(account, alive, origins)
    for node, (kind, layer) in label_variables(adapter).items():
        if node in made and kind in ("parameter", "buffer", "optimizer state"):
            made[node].kind = f"new {kind}"
            made[node].layer = layer
    output = node_number(adapter.output)
    if output in made:
        made[output].kind = "output"
    if not adapter.case.stage.trains:
        for value in alive.values():
            if value.kind == "temporary":
                value.kind = "saved for backward"  # by a graph that nobody goes back through
    return {**account.as_dict(), "how": HOW}


def add_present(account: Account, origins: Origins) -> dict[int, Value]:
    """Add what is there before the step, and return the part of it that can be given back, by
    block.
    """
    alive = {}
    for block, size, node in split_rows(load_probe().held(), 3):
        kind, layer = origins.labels.get(node, Label("other", ""))
        value = Value(kind, layer, "before", size=size)
        account.values.append(value)
        if block >= 0:
            alive[block] = value
    return alive


def replay_blocks(account: Account, alive: dict[int, Value], origins: Origins) -> dict[int, Value]:
    """Add every block that the step took, and end those that it gave back, in order.

    `alive` has the values that lie in a block, and is kept up to date. Return the new values by
    variable.
    """
    made: dict[int, Value] = {}
    makers = iter(load_probe().operators())  # one for each block taken
    for block, size, node, source in split_rows(load_probe().end(), 4):
        account.events += 1
        if size >= 0:  # taken
            value = origins.classify_variable(node, source)
            value.size = size
            value.born = account.events
            value.by = next(makers)
            alive[block] = value
            made[node] = value
            account.values.append(value)
            if value.phase != "before":
                account.enter_phase(value.phase)
        elif block in alive:
            value = alive.pop(block)
            value.died = account.events
            if (
                value.kind == "temporary"
                and value.phase == "forward"
                and account.phase != "forward"
            ):
                value.kind = "saved for backward"  # whoever let it go was not of the forward pass
    account.events += 1  # the end of the step, until which the last values are alive
    return made


def split_rows(numbers: list[int], width: int) -> Iterator[list[int]]:
    """Yield the rows of a table that is laid out in one list."""
    for start in range(0, len(numbers), width):
        yield numbers[start : start + width]
