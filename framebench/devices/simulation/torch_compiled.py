"""What a simulation makes of `torch.compile`: the compiler itself would need the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from torch import nn

REFUSAL = (
    "{} is compiled, and only eager steps are simulated: a compiler decides anew what is kept. "
    "Leave torch.compile out to ask about the eager step"
)


class CompiledStep(NotImplementedError):
    """A step that is compiled; the message says what it is."""


def compile_here(function: Any = None, **options: Any) -> Callable[..., Any]:
    """Take the place of `torch.compile`.

    torchao compiles the update of each weight. Its kernels write into weight and states, and what
    lies between stays in registers: such an update takes no memory. Other functions are refused
    when they are called, as packages compile some that a program never calls.

    Raises CompiledStep for a module.
    """
    if function is None:
        return lambda decorated: compile_here(decorated, **options)
    if isinstance(function, nn.Module):
        raise CompiledStep(REFUSAL.format(type(function).__name__))
    if function.__module__.startswith("torchao.optim"):
        return skip

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise CompiledStep(REFUSAL.format(function.__qualname__))

    return refuse


def skip(*_: Any, **__: Any) -> None:
    """Do nothing."""
