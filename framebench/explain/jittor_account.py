"""Jittor's account of one step: every block that its variables take from the pool and give back, with who made them.

The allocator of `jittor_probe.cc` notes them; Jittor's own stack traces do not work in Python 3.11. Nodes of the graph are
numbered in the order of their making: notes of the number at which a module, the backward pass and the update were entered and
left tell where a variable is from, although all are computed only later, when the graph runs.
"""

from __future__ import annotations

import gc
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jittor as jt
from jittor import Var

from framebench.adapters.jittor.adapter import RUNNING, JittorAdapter
from framebench.adapters.jittor.probe import load_probe
from framebench.explain.account import Account
from framebench.instruments.memory_timeline import Value
from framebench.suite.trees import iterate_arrays

HOW = (
    "blocks that variables took from the pool, until given back, by the bytes of the variable that took it; an event is one or "
    "the other. The graph runs as a whole, so a phase is that of the variable being made. A backward variable has the layer of "
    "the latest value or weight that it is computed from"
)
Notes = list[tuple[int, str]]  # from this node on, what was entered


def number(var: Var) -> int:
    matched = re.match(r"Var\((\d+)", var.debug_msg())
    assert matched
    return int(matched[1])


class Origins:
    """Where the nodes of a step come from."""

    def __init__(self, adapter: JittorAdapter) -> None:
        self.adapter = adapter
        self.names = {id(m): name for name, m in adapter.model.named_modules()}
        self.path: list[str] = []
        self.layers: Notes = []
        self.phases: Notes = [(0, "before"), (load_probe().node(), "forward")]
        self.phase = "forward"
        self.gradients: dict[int, str] = {}  # layer by variable
        self.named = _named_variables(adapter)  # kind and layer of what is there before the step

    def note(self) -> None:
        self.layers.append((load_probe().node(), self.path[-1] if self.path else ""))

    @contextmanager
    def inside(self, module: Any) -> Iterator[None]:
        self.path.append(self.names.get(id(module), self.path[-1] if self.path else "") or "(model)")
        self.note()
        yield
        self.path.pop()
        self.note()

    @contextmanager
    def turned(self, phase: str) -> Iterator[None]:
        before, self.phase = self.phase, phase
        self.phases.append((load_probe().node(), phase))
        yield
        self.phase = before
        self.phases.append((load_probe().node(), before))

    @contextmanager
    def watching(self) -> Iterator[None]:
        call = jt.Module.__call__

        def called(module: Any, *arguments: Any, **options: Any) -> Any:
            with self.inside(module):
                return call(module, *arguments, **options)

        jt.Module.__call__ = called
        optimizer = getattr(self.adapter, "optimizer", None)
        if optimizer:
            optimizer.backward = self.backward(optimizer, optimizer.backward)
            optimizer.step = self.update(optimizer.step)
        yield
        jt.Module.__call__ = call
        if optimizer:
            del optimizer.backward, optimizer.step

    def backward(self, optimizer: Any, original: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: Any) -> None:
            if all(phase != "backward" for _, phase in self.phases):
                load_probe().backward()
            with self.turned("backward"):
                original(*arguments)
            for group in optimizer.param_groups:
                for parameter, gradient in zip(group["params"], group["grads"]):
                    self.gradients[number(gradient)] = self.named.get(number(parameter), ("", ""))[1]

        return run

    def update(self, original: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: Any) -> None:
            with self.turned("optimizer"):
                original(*arguments)

        return run

    def value(self, node: int, source: int) -> Value:
        """What a new variable is; `source`: the latest node before the backward pass that it is computed from."""
        phase = last(self.phases, node)
        inside = last(self.layers, node)
        if not node or phase == "before":  # no variable, or one that was named before and only now computed
            return Value("other", "", "before" if node else "forward")
        if phase == "optimizer":
            return Value("temporary", "(optimizer)", phase)
        if phase == "backward" and node in self.gradients:
            return Value("gradient", self.gradients[node], phase)
        if phase == "backward" and not inside:
            origin = self.named[source][1] if source in self.named else last(self.layers, source)
            return Value("temporary", origin or "(loss)", phase)
        return Value("recomputed" if phase == "backward" else "temporary", inside or "(loss)", phase)


def last(notes: Notes, node: int) -> str:
    place = bisect_right(notes, node - 1, key=lambda note: note[0])  # a note is made before the next node
    return notes[place - 1][1] if place else ""


def _named_variables(adapter: JittorAdapter) -> dict[int, tuple[str, str]]:
    """Kind and layer of the variables that Python refers to, by node."""
    parameters = [(name, name.rpartition(".")[0], p) for name, p in adapter.model.named_parameters()]
    layers = {id(p): layer for _, layer, p in parameters}
    labels_by_node = {number(p): ("buffer" if name.endswith(RUNNING) else "parameter", layer) for name, layer, p in parameters}
    for group in getattr(getattr(adapter, "optimizer", None), "param_groups", []):
        for key in ("values", "m", "grads"):
            for parameter, state in zip(group["params"], group.get(key) or []):
                kind = "gradient" if key == "grads" else "optimizer state"
                labels_by_node[number(state)] = (kind, layers.get(id(parameter), ""))
    return labels_by_node | {number(v): ("input", "") for v in iterate_arrays(adapter.inputs)}


def account(adapter: JittorAdapter) -> dict[str, Any]:
    """Of one more step, and of the graph that it leaves to run."""
    adapter.release()
    adapter.synchronize()
    gc.collect()
    origins, step_account = Origins(adapter), Account()
    step_account.turn("forward")
    alive = _present(step_account, origins)
    load_probe().begin()
    with origins.watching():
        adapter.step()
        adapter.synchronize()
    made = follow(step_account, alive, origins)
    for node, (kind, layer) in _named_variables(adapter).items():
        if node in made and kind in ("parameter", "buffer", "optimizer state"):
            made[node].kind, made[node].layer = f"new {kind}", layer
    if number(adapter.output) in made:
        made[number(adapter.output)].kind = "output"
    for value in alive.values():
        if value.kind == "temporary" and not adapter.case.stage.trains:
            value.kind = "saved for backward"  # by a graph that nobody goes back through
    return step_account.as_dict() | {"how": HOW}


def _present(step_account: Account, origins: Origins) -> dict[int, Value]:
    """What is there before the step; the part of it that can be given back, by block."""
    alive = {}
    for block, size, node in parts(load_probe().held(), 3):
        kind, layer = origins.named.get(node, ("other", ""))
        value = Value(kind, layer, "before", size=size)
        step_account.values.append(value)
        if block >= 0:
            alive[block] = value
    return alive


def follow(step_account: Account, alive: dict[int, Value], origins: Origins) -> dict[int, Value]:
    """Every block taken and given back, in order. Returns the new values by variable."""
    made: dict[int, Value] = {}
    makers = iter(load_probe().operators())
    for block, size, node, source in parts(load_probe().end(), 4):
        step_account.events += 1
        if size >= 0:
            value = alive[block] = made[node] = origins.value(node, source)
            value.size, value.born, value.by = size, step_account.events, next(makers)
            step_account.values.append(value)
            if value.phase != "before":
                step_account.turn(value.phase)
        elif block in alive:
            ended = alive.pop(block)
            ended.died = step_account.events
            if ended.kind == "temporary" and ended.phase == "forward" != step_account.phase:
                ended.kind = "saved for backward"  # whoever let it go was not of the forward pass
    step_account.events += 1
    return made


def parts(flat: list[int], length: int) -> Iterator[tuple[int, ...]]:
    return zip(*(flat[i::length] for i in range(length)))
