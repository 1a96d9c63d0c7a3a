"""Find out whether rounding changes what a step chooses, such as the experts of a mixture.

A choice is discrete: where two scores are nearly alike, a rounded product picks the other entry,
and the gradient is another one altogether. So a step may be right and yet be off by more than any
tolerance that rounding gives. To find out whether that is the cause, the step is repeated in its
own precision with the choices that float32 makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from framebench.adapters.base import Result
from framebench.adapters.replacing import replace_attributes
from framebench.adapters.torch.modes import OperatorMode, name_arguments, name_operator

PRECISIONS = {"bf16": "bfloat16", "fp16": "float16"}
CHOOSING = ("topk", "argmax", "argmin", "max", "min", "sort")  # operators that return indices


@dataclass(frozen=True)
class Choice:
    """The indices that one operator has chosen, in the module that called it."""

    operator: str
    module: str
    indices: Tensor
    dim: int = -1  # along which the entries were compared

    def count_changed(self, other: Choice) -> int:
        """Return how many indices another choice lacks; the order within a top-k is ignored."""
        if self.operator != "topk" or not self.indices.ndim:
            return int((self.indices != other.indices).sum())
        own_indices = self.indices.movedim(self.dim, -1)
        other_indices = other.indices.movedim(self.dim, -1)
        # each of our k with each of theirs
        is_same = own_indices.unsqueeze(-1) == other_indices.unsqueeze(-2)
        is_lacking = ~is_same.any(-1)
        return int(is_lacking.sum())


class ChoiceMode(OperatorMode):
    """Context that records each choice, and makes those in `forced` in place of a step's own."""

    def __init__(self, forced: Sequence[Choice] = ()) -> None:
        """Begin with no choice made."""
        super().__init__()
        self.choices: list[Choice] = []
        self.forced = forced
        self.modules = [""]  # names of those that run, the innermost last

    def run_operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator, and record or replace what it chooses."""
        out = func(*args, **kwargs)
        operator = name_operator(func)
        indices = find_indices(out, operator) if operator in CHOOSING else None
        if indices is None:
            return out
        arguments = name_arguments(func, args, kwargs)
        position = len(self.choices)
        if position < len(self.forced):
            forced = self.forced[position].indices
            if forced.shape == indices.shape:
                force_choice(out, indices, forced, arguments)
        dim = arguments.get("dim", -1)
        self.choices.append(Choice(operator, self.modules[-1], indices.clone(), dim))
        return out

    @contextmanager
    def watch(self, model: nn.Module) -> Iterator[None]:
        """Keep in `modules` the names of the model's modules that run in this context."""

        def enter(name: str, *_: Any) -> None:
            self.modules.append(name)

        def leave(*_: Any) -> None:
            self.modules.pop()

        with ExitStack() as stack:
            for name, module in model.named_modules():
                stack.enter_context(module.register_forward_pre_hook(partial(enter, name)))
                stack.enter_context(module.register_forward_hook(leave, always_call=True))
            yield


def find_indices(out: Any, operator: str) -> Tensor | None:
    """Return the indices among the results of an operator, or None where it has none."""
    if isinstance(out, tuple | list):
        last_result = out[-1]
        return (
            last_result
            if isinstance(last_result, Tensor) and last_result.dtype == torch.int64
            else None
        )
    # `max` of a whole tensor is a value, also of integers
    return out if operator in ("argmax", "argmin") else None


def force_choice(out: Any, indices: Tensor, forced: Tensor, arguments: dict[str, Any]) -> None:
    """Put other indices, and the values there, into the results of an operator."""
    indices.copy_(forced)
    if not isinstance(out, tuple | list):
        return
    values = out[0]
    dim = arguments.get("dim", -1)
    places = indices
    if values.ndim < arguments["self"].ndim:  # `keepdim` is off
        places = indices.unsqueeze(dim)
    values.copy_(arguments["self"].gather(dim, places).view_as(values))


def repeat_with_exact_choices(
    adapter: Any, make_steps: Callable[[], Result]
) -> tuple[Result, str] | None:
    """Repeat steps of a user's model under autocast, with the choices that float32 makes.

    The steps are made up to three times: in float32, to record its choices; in the case's own
    precision; and, if the choices differ, in that precision with the choices of float32.

    Args:
        adapter: The case, which is not compiled.
        make_steps: Makes the steps from the first weights on, and returns what is observed.

    Returns:
        What is observed in the last steps, and a text on the choice that rounding changes most.
        None where rounding changes no choice, and where the case is not under autocast.
    """
    dtype = PRECISIONS.get(adapter.case.strategy_spec.precision)
    if dtype is None:
        return None
    contexts = [enter for enter in adapter.recipe.contexts if not is_autocast(enter)]
    with replace_attributes(adapter.recipe, contexts=contexts):
        _, exact = record_choices(adapter, make_steps)
    _, rounded = record_choices(adapter, make_steps)
    changed = find_most_changed(exact, rounded)
    if changed is None:
        return None
    result, _ = record_choices(adapter, make_steps, forced=exact)
    choice, count = changed
    return result, describe_change(choice, count, dtype)


def is_autocast(enter: Any) -> bool:
    """Return whether a function enters autocast, as those that switches of precision add do."""
    return isinstance(enter, partial) and enter.func is torch.autocast


def describe_change(choice: Choice, count: int, dtype: str) -> str:
    """Return a text on a choice, of which rounding to `dtype` changes `count` entries."""
    total = choice.indices.numel()
    return (
        f"{choice.operator} in {choice.module or 'the loss'} chooses other entries in {dtype} than "
        f"in float32, {count} of {total} in one step ({count / total:.1%}), as where tokens are "
        "routed to other experts"
    )


def record_choices(
    adapter: Any, make_steps: Callable[[], Result], forced: Sequence[Choice] = ()
) -> tuple[Result, list[Choice]]:
    """Make steps, uncompiled, and return their result and their choices.

    With `forced` they make these choices, one after the other, in place of their own.
    """
    mode = ChoiceMode(forced)
    with torch.compiler.set_stance("force_eager"), mode.watch(adapter.model), mode:
        result = make_steps()
    return result, mode.choices


def find_most_changed(exact: list[Choice], rounded: list[Choice]) -> tuple[Choice, int] | None:
    """Return the exact choice of which most indices differ, and how many do.

    Returns None where none differs, or where the two runs do not make the same choices.
    """
    if list(map(get_operator_and_shape, exact)) != list(map(get_operator_and_shape, rounded)):
        return None
    counts = [
        exact_choice.count_changed(rounded_choice)
        for exact_choice, rounded_choice in zip(exact, rounded)
    ]
    largest_count = max(counts, default=0)
    return (exact[counts.index(largest_count)], largest_count) if largest_count else None


def get_operator_and_shape(choice: Choice) -> tuple[str, torch.Size]:
    """Return what two runs must have in common to compare a choice: its operator and shape."""
    return choice.operator, choice.indices.shape
