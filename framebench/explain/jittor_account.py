"""Account for one step of Jittor: every block that variables take from the pool and give back.

The allocator of `jittor_probe.cc` notes the blocks; Jittor's own stack traces do not work in Python
3.11. Nodes of the graph are numbered in the order in which they are made, and computed only later,
when the graph runs. So notes of the number at which a module, the backward pass and the update were
entered and left tell where a variable is from.
"""

from __future__ import annotations

import gc
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, NamedTuple

import jittor as jt
from jittor import Var

from framebench.adapters.jittor.adapter import RUNNING, JittorAdapter
from framebench.adapters.jittor.probe import load_probe
from framebench.explain.account import Account
from framebench.instruments.memory_timeline import Value
from framebench.suite.sequences import cut_into_batches
from framebench.suite.trees import iterate_arrays

HOW = (
    "blocks that variables took from the pool, until given back, by the bytes of the variable that "
    "took it; an event is one or the other. The graph runs as a whole, so a phase is that of the "
    "variable being made. A backward variable has the layer of the latest value or weight that it "
    "is computed from"
)
STATES = {"values": "optimizer state", "m": "optimizer state", "grads": "gradient"}


class Note(NamedTuple):
    """A layer or phase that was entered before a node of the graph was made."""

    next_node: int  # the number that the next node gets
    name: str  # of the layer or phase


class Label(NamedTuple):
    """What a variable of the model, the optimizer or the inputs is."""

    kind: str
    layer: str


UNLABELLED = Label("other", "")


@contextmanager
def note_entry(notes: list[Note], name: str) -> Iterator[None]:
    """Note that a layer or phase is entered here, and at the end that the one around it goes on."""
    outer_name = notes[-1].name
    notes.append(Note(load_probe().count_nodes(), name))
    try:
        yield
    finally:
        notes.append(Note(load_probe().count_nodes(), outer_name))


def find_note(notes: list[Note], node: int) -> str:
    """Return the layer or phase that was entered last before this node was made."""
    # a note is made before the next node
    place = bisect_right(notes, node - 1, key=attrgetter("next_node"))
    return notes[place - 1].name if place else ""


class Origins:
    """Where the nodes of a step come from: which module and which phase made them."""

    def __init__(self, adapter: JittorAdapter) -> None:
        """Note what the variables of the model are, and that the forward pass begins now."""
        self.adapter = adapter
        self.names = {id(module): name for name, module in adapter.model.named_modules()}
        self.layers = [Note(0, "")]
        self.phases = [Note(0, "before"), Note(load_probe().count_nodes(), "forward")]
        self.gradients: dict[int, str] = {}  # layer by variable
        self.labels = label_variables(adapter)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """While this context is open, note which layer and which phase create each node."""
        with self.watch_layers(), self.watch_phases():
            yield

    @contextmanager
    def watch_layers(self) -> Iterator[None]:
        """While this context is open, note which module is entered and left."""
        original_call = jt.Module.__call__  # all modules of a model are called by it

        def call(module: Any, *arguments: Any, **options: Any) -> Any:
            # one without a name counts as the module around it
            outer_name = self.layers[-1].name
            name = self.names.get(id(module), outer_name)
            with note_entry(self.layers, name or "(model)"):
                return original_call(module, *arguments, **options)

        jt.Module.__call__ = call
        try:
            yield
        finally:
            jt.Module.__call__ = original_call

    @contextmanager
    def watch_phases(self) -> Iterator[None]:
        """While this context is open, note when the backward pass and the update begin and end."""
        optimizer = getattr(self.adapter, "optimizer", None)
        if optimizer is None:
            yield
            return
        backward, step = optimizer.backward, optimizer.step

        def run_backward(*arguments: Any) -> None:
            is_first = all(note.name != "backward" for note in self.phases)
            if is_first:
                # from now on the probe traces each new node to those of the forward pass
                load_probe().trace_backward()
            with note_entry(self.phases, "backward"):
                backward(*arguments)
            self.note_gradients(optimizer)

        def run_update(*arguments: Any) -> None:
            with note_entry(self.phases, "optimizer"):
                step(*arguments)

        # set on the object, so that deleting them brings the methods of the class back
        optimizer.backward, optimizer.step = run_backward, run_update
        try:
            yield
        finally:
            del optimizer.backward, optimizer.step

    def note_gradients(self, optimizer: jt.optim.Optimizer) -> None:
        """Note the layer of each gradient that the optimizer holds."""
        for group in optimizer.param_groups:
            for parameter, gradient in zip(group["params"], group["grads"]):
                label = self.labels.get(read_node_number(parameter), UNLABELLED)
                self.gradients[read_node_number(gradient)] = label.layer

    def classify_variable(self, node: int, source: int) -> Value:
        """Return a value with the kind, layer and phase of a variable that takes memory.

        Args:
            node: Number of the graph node; 0 for memory that no variable owns.
            source: The latest node before the backward pass that the variable is computed from.
        """
        if not node:
            return Value("other", "", "forward")
        phase = find_note(self.phases, node)
        layer = find_note(self.layers, node)
        if phase == "before":  # made before the step, and only now computed
            return Value("other", "", phase)
        if phase == "optimizer":
            return Value("temporary", "(optimizer)", phase)
        if phase == "forward":
            return Value("temporary", layer or "(loss)", phase)
        if node in self.gradients:
            return Value("gradient", self.gradients[node], phase)
        if layer:  # a module that runs in the backward pass is recomputed
            return Value("recomputed", layer, phase)
        if source in self.labels:
            layer = self.labels[source].layer
        else:
            layer = find_note(self.layers, source)
        return Value("temporary", layer or "(loss)", phase)


def read_node_number(variable: Var) -> int:
    """Return the number of a variable in the graph."""
    matched = re.match(r"Var\((\d+)", variable.debug_msg())
    assert matched
    return int(matched[1])


def label_variables(adapter: JittorAdapter) -> dict[int, Label]:
    """Return what the variables of model, optimizer and inputs are, by node."""
    labels = {}
    layers = {}  # by the id of a parameter
    for name, parameter in adapter.model.named_parameters():
        layer, _, _ = name.rpartition(".")
        layers[id(parameter)] = layer
        kind = "buffer" if name.endswith(RUNNING) else "parameter"
        labels[read_node_number(parameter)] = Label(kind, layer)
    optimizer = getattr(adapter, "optimizer", None)
    for group in getattr(optimizer, "param_groups", []):
        for key, kind in STATES.items():
            states = group.get(key) or []
            for parameter, state in zip(group["params"], states):
                labels[read_node_number(state)] = Label(kind, layers.get(id(parameter), ""))
    for variable in iterate_arrays(adapter.inputs):
        labels[read_node_number(variable)] = Label("input", "")
    return labels


def explain_step(adapter: JittorAdapter) -> dict[str, Any]:
    """Make one more step, run its graph, and return its account as fields of an `Explanation`."""
    # run what earlier steps have left to compute, so that it does not count as this step's
    adapter.release()
    adapter.synchronize()
    gc.collect()
    origins = Origins(adapter)
    account = Account()
    account.enter_phase("forward")
    alive = add_values_before(account, origins)
    load_probe().begin_recording()
    with origins.watch():
        adapter.step()
        adapter.synchronize()
    values = replay_blocks(account, alive, origins)
    for node, (kind, layer) in label_variables(adapter).items():
        if node in values and kind in ("parameter", "buffer", "optimizer state"):
            values[node].kind = f"new {kind}"
            values[node].layer = layer
    output = read_node_number(adapter.output)
    if output in values:
        values[output].kind = "output"
    if not adapter.case.scenario_spec.trains:
        for value in alive.values():
            if value.kind == "temporary":
                value.kind = "saved for backward"  # by a graph that nobody goes back through
    return {**account.as_dict(), "how": HOW}


def add_values_before(account: Account, origins: Origins) -> dict[int, Value]:
    """Add what is there before the step, and return by block what can be given back."""
    alive = {}
    for block, size, node in cut_into_batches(load_probe().held(), 3):
        kind, layer = origins.labels.get(node, UNLABELLED)
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
    new_values: dict[int, Value] = {}
    makers = iter(load_probe().operators())  # one for each block taken
    for block, size, node, source in cut_into_batches(load_probe().end_recording(), 4):
        account.events += 1
        if size >= 0:  # taken
            value = origins.classify_variable(node, source)
            value.size = size
            value.born = account.events
            value.by = next(makers)
            alive[block] = value
            new_values[node] = value
            account.values.append(value)
            if value.phase != "before":
                account.enter_phase(value.phase)
        elif block in alive:
            value = alive.pop(block)
            value.died = account.events
            # made in the forward pass and given back after it: the backward pass needed it
            is_saved = value.phase == "forward" and account.phase != "forward"
            if is_saved and value.kind == "temporary":
                value.kind = "saved for backward"
    account.events += 1  # the end of the step, until which the last values are alive
    return new_values
