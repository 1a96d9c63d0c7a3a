"""The optimizer of a user's file, taken as the file made it.

It may have hooks, groups of its own, a schedule, or another optimizer inside, as SAM and Lookahead
do. Options are set in its groups. Where weights are put back the file makes a new one, since it may
keep anything anywhere.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from framebench.suite.trees import map_tree
from framebench.suite.user_file import DoesNotApply

CONTAINERS = (tuple, list, dict)
HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
# of a step's source: an assertion of its closure, or an error where it has none
NEEDS_CLOSURE = re.compile(r"\bassert\b[^\n]*\bclosure\b|\bif\b[^\n]*\bclosure\b[^\n]*:\s*raise\b")
PERIODS = ("k", "la_steps", "lookahead_k", "sync_period")  # how published Lookaheads name it
EXCLUSIVE = {"foreach": "fused", "fused": "foreach"}  # an optimizer takes one of them


class CombinedOptimizer(Optimizer):
    """Several optimizers, which step one after the other when the backward pass is done.

    If the file has an object that steps them but is no optimizer itself, such as the warm-up of the
    Annotated Transformer, this object is the `wrapper`, and only its `step` is called.
    """

    def __init__(self, optimizers: list[Optimizer], wrapper: Any = None) -> None:
        """Take over the groups of all optimizers, so that options can be set in them."""
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        super().__init__(groups, defaults={})  # each group has its options already
        self.combined_optimizers = optimizers
        self.wrapper = wrapper

    @property
    def state(self) -> defaultdict[Tensor, Any]:  # type: ignore[override]
        """Return the states of all optimizers."""
        states: defaultdict[Tensor, Any] = defaultdict(dict)
        for combined_optimizer in self.combined_optimizers:
            states.update(combined_optimizer.state)
        return states

    @state.setter
    def state(self, _: Any) -> None:
        """Ignore the empty states that the base class begins with."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Call the wrapper's step, or else each optimizer's in turn."""
        if self.wrapper:
            self.wrapper.step()
            return
        for optimizer in self.combined_optimizers:
            optimizer.step()


def list_returned(returned: Any) -> list[Any]:
    """Return each object in the result of the file's `optimizer` once.

    The objects may be in tuples, lists and dictionaries.
    """
    objects: list[Any] = []
    map_tree(objects.append, returned, lambda node: not isinstance(node, CONTAINERS))
    return list({id(each): each for each in objects}.values())


def list_optimizers(returned: Any) -> list[Optimizer]:
    """Return the optimizers that the file's `optimizer` returned, without those inside others.

    If it returned no optimizer itself, an object that steps an optimizer inside it counts as one.
    """
    objects = list_returned(returned)
    optimizers = [item for item in objects if isinstance(item, Optimizer)]
    inner_ids: set[int] = set()
    for optimizer in optimizers:
        inner_ids.update(id(inner) for inner in list_inner(optimizer))
    outermost = [optimizer for optimizer in optimizers if id(optimizer) not in inner_ids]
    if outermost:
        return outermost
    steppers: list[Optimizer] = []
    for item in objects:
        inner_optimizers = list_inner(item)
        is_scheduler = isinstance(item, LRScheduler)
        if inner_optimizers and not is_scheduler and callable(getattr(item, "step", None)):
            steppers.append(CombinedOptimizer(inner_optimizers, item))
    return steppers


def list_inner(holder: Any) -> list[Optimizer]:
    """Return the optimizers among an object's attributes, and the optimizers inside these."""
    inner: dict[int, Optimizer] = {}
    pending = [holder]
    while pending:
        attributes = getattr(pending.pop(), "__dict__", {})
        for each in list_returned(list(attributes.values())):
            if isinstance(each, Optimizer) and each is not holder and id(each) not in inner:
                inner[id(each)] = each
                pending.append(each)
    return list(inner.values())


def list_parts(optimizer: Any) -> list[Any]:
    """Return the optimizers of a combined one, in the order of their steps, or the single one."""
    is_combined = isinstance(optimizer, CombinedOptimizer) and not optimizer.wrapper
    return optimizer.combined_optimizers if is_combined else [optimizer]


def describe_optimizer(optimizer: Optimizer) -> str:
    """Return an optimizer's class, and the optimizers that it wraps."""
    parts = list_parts(optimizer)
    if len(parts) > 1:
        return " and ".join(map(describe_optimizer, parts))
    name = type(getattr(optimizer, "wrapper", None) or optimizer).__name__
    inner = [type(each).__name__ for each in list_inner(optimizer)]
    return f"{name} around {' and '.join(inner)}" if inner else name


def set_options(optimizer: Optimizer, options: dict[str, Any]) -> None:
    """Set options in all groups of an optimizer, and of the optimizers inside it.

    Raises DoesNotApply at the first option that none of them has; earlier options are then set.
    """
    optimizers = [optimizer, *list_inner(optimizer)]
    for name, value in options.items():
        groups = []
        for each in optimizers:
            if name in getattr(each, "defaults", {}):
                each.defaults[name] = value
                groups += each.param_groups
        if not groups:
            kind = describe_optimizer(optimizer)
            raise DoesNotApply(f"your optimizer, {kind}, has no option {name}")
        for group in groups:
            group[name] = value
            excluded = EXCLUSIVE.get(name)
            if excluded in group:  # some optimizers have one of the two options only
                group[excluded] = False


def find_period(optimizer: Any) -> int:
    """Return the period in steps after which an optimizer does more, as Lookahead does.

    It is read from the attributes and groups of the optimizer and of the optimizers inside it; 1 if
    no attribute names a period.
    """
    periods = [1]
    for each in (optimizer, *list_inner(optimizer)):
        for settings in (vars(each), each.defaults, *each.param_groups):
            for name in PERIODS:
                if isinstance(settings.get(name), int):
                    periods.append(settings[name])
    return max(periods)


def has_hooks(optimizer: Optimizer) -> bool:
    """Return whether the file has registered hooks on the steps of an optimizer."""
    optimizers = [optimizer, *list_inner(optimizer)]
    return any(getattr(each, name, None) for each in optimizers for name in HOOKS)


def asks_for_closure(optimizer: Optimizer) -> bool:
    """Return whether a step fails without a closure, although its signature has a default for it.

    The step of the published SAM is an example: after a backward pass of the program it makes a
    second one by the closure. The source of the step is searched for an `assert` of the closure, or
    a `raise` if it is None.
    """
    if type(optimizer).__module__.startswith("torch.optim"):
        return False
    try:
        source = inspect.getsource(inspect.unwrap(type(optimizer).step))
    except (OSError, TypeError):  # there is no source
        return False
    return bool(NEEDS_CLOSURE.search(source))


def needs_closure(optimizer: Any) -> bool:
    """Return whether the optimizer's step computes the loss itself, as that of L-BFGS does."""
    parameter = inspect.signature(optimizer.step).parameters.get("closure")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def makes_passes(optimizer: Optimizer) -> bool:
    """Return whether an optimizer's step calls a closure."""
    return needs_closure(optimizer) or asks_for_closure(optimizer)


def iterate_states(optimizer: Any, with_inner: bool) -> Iterator[tuple[nn.Parameter, Any]]:
    """Yield each weight with its state in an optimizer and, if `with_inner`, in those inside it."""
    optimizers = [optimizer, *(list_inner(optimizer) if with_inner else ())]
    yielded = set()
    for each in optimizers:
        for p, state in each.state.items():
            if isinstance(state, dict) and id(state) not in yielded:
                yielded.add(id(state))
                yield p, state
