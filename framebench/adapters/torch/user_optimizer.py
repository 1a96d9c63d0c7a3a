"""The optimizer of a user's file, taken as the file made it.

It may have hooks, groups of its own, a schedule, or another optimizer inside, as SAM and Lookahead
do. No strategy builds it anew: options are set in its groups, and what it keeps is put back in
place.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from framebench.adapters.torch.observe import needs_closure
from framebench.suite.trees import map_tree
from framebench.suite.user_file import DoesNotApply

CONTAINERS = (tuple, list, dict)
NUMBERS = (bool, int, float, str, type(None))
HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
EXCLUSIVE = {"foreach": "fused", "fused": "foreach"}  # an optimizer takes one of them


class SteppedBy(Optimizer):
    """An object of the file that steps an optimizer inside it, and is none itself.

    The warm-up of the Transformer's annotated code is one.
    """

    def __init__(self, wrapper: Any, inner: list[Optimizer]) -> None:
        groups = [group for one in inner for group in one.param_groups]
        super().__init__(groups, {})
        self.wrapper = wrapper
        self.inner = inner

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make the step of the file's object."""
        self.wrapper.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all weights."""
        for one in self.inner:
            one.zero_grad(set_to_none)


class CombinedOptimizer(Optimizer):
    """Several optimizers, which step one after the other when the backward pass is done."""

    def __init__(self, optimizers: list[Optimizer]) -> None:
        groups = [group for one in optimizers for group in one.param_groups]
        super().__init__(groups, {})
        self.combined_optimizers = optimizers

    @property
    def state(self) -> defaultdict[Tensor, Any]:  # type: ignore[override]
        """Return the states of all of them."""
        states: defaultdict[Tensor, Any] = defaultdict(dict)
        for one in self.combined_optimizers:
            states.update(one.state)
        return states

    @state.setter
    def state(self, _: Any) -> None:
        """Ignore the empty states that the base class begins with."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Step one after the other."""
        for one in self.combined_optimizers:
            one.step()


def list_returned(returned: Any) -> list[Any]:
    """Return the objects in what the file's `optimizer` returned, each once.

    They may be in tuples, lists and dictionaries.
    """
    objects: list[Any] = []
    map_tree(objects.append, returned, lambda node: not isinstance(node, CONTAINERS))
    return list({id(one): one for one in objects}.values())


def list_optimizers(returned: Any) -> list[Optimizer]:
    """Return the optimizers that the file's `optimizer` returned, without those inside others.

    Where there is none, an object that steps one inside it takes its place.
    """
    objects = list_returned(returned)
    optimizers = [one for one in objects if isinstance(one, Optimizer)]
    inside = {id(inner) for one in optimizers for inner in list_inner(one)}
    outermost = [one for one in optimizers if id(one) not in inside]
    if outermost:
        return outermost
    steppers: list[Optimizer] = []
    for one in objects:
        inner = list_inner(one)
        steps = callable(getattr(one, "step", None)) and not isinstance(one, LRScheduler)
        if steps and inner:
            steppers.append(SteppedBy(one, inner))
    return steppers


def list_inner(holder: Any) -> list[Optimizer]:
    """Return the optimizers that an object has among its attributes, and those in them."""
    inner: dict[int, Optimizer] = {}
    pending = [holder]
    while pending:
        attributes = getattr(pending.pop(), "__dict__", {})
        for one in list_returned(list(attributes.values())):
            if isinstance(one, Optimizer) and one is not holder and id(one) not in inner:
                inner[id(one)] = one
                pending.append(one)
    return list(inner.values())


def list_parts(optimizer: Any) -> list[Any]:
    """Return the optimizers that step one after the other; of a single one itself."""
    if isinstance(optimizer, CombinedOptimizer):
        return list(optimizer.combined_optimizers)
    return [optimizer]


def describe_optimizer(optimizer: Optimizer) -> str:
    """Return an optimizer's class, and what it is around."""
    if isinstance(optimizer, CombinedOptimizer):
        names = [describe_optimizer(one) for one in optimizer.combined_optimizers]
        return " and ".join(names) + ", which step together"
    outer: Any = optimizer.wrapper if isinstance(optimizer, SteppedBy) else optimizer
    inner = list_inner(optimizer)
    name = type(outer).__name__
    return f"{name} around {' and '.join(type(one).__name__ for one in inner)}" if inner else name


def set_options(optimizer: Optimizer, options: dict[str, Any]) -> None:
    """Set options in all groups of an optimizer. Raises DoesNotApply if it has none of them."""
    optimizers = [optimizer, *list_inner(optimizer)]
    for name, value in options.items():
        groups = []
        for one in optimizers:
            if name in getattr(one, "defaults", {}):
                one.defaults[name] = value
                groups += one.param_groups
        if not groups:
            kind = describe_optimizer(optimizer)
            raise DoesNotApply(f"your optimizer, {kind}, has no option {name}")
        for group in groups:
            group[name] = value
            if EXCLUSIVE.get(name) in group:
                group[EXCLUSIVE[name]] = False


def has_hooks(optimizer: Optimizer) -> bool:
    """Return whether the file has registered hooks on the steps of an optimizer."""
    optimizers = [optimizer, *list_inner(optimizer)]
    return any(getattr(one, name, None) for one in optimizers for name in HOOKS)


def asks_for_closure(optimizer: Optimizer) -> bool:
    """Return whether a step fails without a closure, although its signature has a default for it.

    The published SAM is such: it makes its second pass by the closure, after a backward pass of the
    program. Its source tells, by an `assert` of the closure or a `raise` where it is None.
    """
    step = inspect.unwrap(type(optimizer).step)
    if type(optimizer).__module__.startswith("torch.optim"):
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(step)))
    except (OSError, TypeError, SyntaxError):  # there is no source
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and names_closure(node.test):
            return True
        raises = isinstance(node, ast.If) and any(isinstance(one, ast.Raise) for one in node.body)
        if isinstance(node, ast.If) and raises and names_closure(node.test):
            return True
    return False


def names_closure(test: ast.expr) -> bool:
    """Return whether an expression is about the name `closure`."""
    names = [node.id for node in ast.walk(test) if isinstance(node, ast.Name)]
    return "closure" in names


def makes_passes(optimizer: Optimizer) -> bool:
    """Return whether an optimizer's step calls a closure, in one way or the other."""
    return needs_closure(optimizer) or asks_for_closure(optimizer)


def iterate_states(optimizer: Any, with_inner: bool) -> Iterator[tuple[nn.Parameter, Any]]:
    """Yield each weight with the state that an optimizer has of it, also those inside it."""
    optimizers = [optimizer, *(list_inner(optimizer) if with_inner else ())]
    yielded = set()
    for one in optimizers:
        for p, state in one.state.items():
            if isinstance(state, dict) and id(state) not in yielded:
                yielded.add(id(state))
                yield p, state


def is_copyable(value: Any) -> bool:
    """Return whether something is made of numbers and tensors that are no weights of a model."""
    if isinstance(value, Tensor):
        return not isinstance(value, nn.Parameter) and value.is_leaf
    if isinstance(value, dict):
        return all(is_copyable(one) for one in value.values())
    if isinstance(value, list | tuple):
        return all(is_copyable(one) for one in value)
    return isinstance(value, NUMBERS)


class OptimizerSnapshot:
    """What an optimizer of a user's file keeps before the first step, to be put back.

    These are its states, the numbers in its groups, and its attributes; the same of optimizers
    inside it, and of the schedules that the file returned with it.
    """

    def __init__(self, optimizer: Any, with_inner: bool, returned: Any = None) -> None:
        self.optimizer = optimizer
        self.with_inner = with_inner
        self.states = {p: copy.deepcopy(s) for p, s in iterate_states(optimizer, with_inner)}
        self.holders: list[tuple[Any, dict[str, Any]]] = []
        self.groups: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.schedules: list[tuple[Any, Any]] = []
        if with_inner:
            self.keep_rest(returned)

    def keep_rest(self, returned: Any) -> None:
        """Copy what the file's objects keep next to states."""
        holders = [self.optimizer, *list_inner(self.optimizer)]
        if isinstance(self.optimizer, SteppedBy):
            holders.append(self.optimizer.wrapper)
        for one in holders:
            values = {}
            for name, value in vars(one).items():
                is_known = name in ("param_groups", "state", "defaults") or name.endswith("_hooks")
                if not is_known and is_copyable(value):
                    values[name] = copy.deepcopy(value)
            self.holders.append((one, values))
            for group in getattr(one, "param_groups", ()):
                kept = {k: copy.deepcopy(v) for k, v in group.items() if is_copyable(v)}
                self.groups.append((group, kept))
        for one in list_returned(returned):
            if not isinstance(one, Optimizer) and callable(getattr(one, "load_state_dict", None)):
                self.schedules.append((one, copy.deepcopy(one.state_dict())))

    def restore(self) -> None:
        """Put back what was kept, in place where it is a state."""
        for p, state in iterate_states(self.optimizer, self.with_inner):
            state.clear()
            state.update(copy.deepcopy(self.states.get(p, {})))
        for one, values in self.holders:
            for name, value in values.items():
                setattr(one, name, copy.deepcopy(value))
        for group, values in self.groups:
            for name in [name for name in group if name not in values and name != "params"]:
                if is_copyable(group[name]):
                    del group[name]
            group.update(copy.deepcopy(values))
        for schedule, state in self.schedules:
            schedule.load_state_dict(copy.deepcopy(state))

    def list_tensors(self) -> list[Tensor]:
        """Return the tensors that are kept."""
        tensors: list[Tensor] = []

        def add(value: Any) -> None:
            if isinstance(value, Tensor):
                tensors.append(value)
            elif isinstance(value, dict):
                add(list(value.values()))
            elif isinstance(value, list | tuple):
                for one in value:
                    add(one)

        add(list(self.states.values()))
        add([values for _, values in self.holders])
        add([values for _, values in self.groups])
        return tensors
