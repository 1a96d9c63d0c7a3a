"""Compile a step as Inductor would for the simulated GPU.

The compiler runs in this process: Dynamo traces the program, AOTAutograd's partitioner decides what
is saved for the backward pass, and Inductor fuses kernels and plans their buffers. None of them
needs a GPU (`torch_inductor`). Modes and options that measure on the GPU are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial, wraps
from typing import Any

import torch
from torch.overrides import _pop_mode_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

from framebench.devices.simulation.scope import MODES
from framebench.devices.simulation.torch_device import do_nothing
from framebench.devices.simulation.torch_watch import Watch

REFUSED_OPTIONS = {
    "triton.cudagraphs": MODES["reduce-overhead"],
    "max_autotune": MODES["max-autotune"],
    "max_autotune_gemm": MODES["max-autotune"],
    "max_autotune_pointwise": MODES["max-autotune"],
}
HINT = "Leave torch.compile out to ask about the eager step"


class UnsupportedCompilation(NotImplementedError):
    """A step whose compilation cannot be simulated; the message says why."""


def make_compile(watch: Watch) -> Callable[..., Any]:
    """Return the function that takes the place of `torch.compile` in a simulation."""
    torch_compile = torch.compile

    def compile_function(function: Any = None, **options: Any) -> Callable[..., Any]:
        """Return the function, to be compiled by the simulation when it is first called."""
        if function is None:
            return lambda decorated: compile_function(decorated, **options)
        if getattr(function, "__module__", "").startswith("torchao.optim"):
            # torchao compiles the update of each weight: its kernels write into the weight and its
            # states, keep intermediate results in registers, and take no memory
            return do_nothing
        obstacle = explain_refused_options(**options)
        if watch.ranks > 1:
            obstacle = "compiled steps of several GPUs are not simulated"
        compiled: Callable[..., Any] | None = None

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            """Compile the function before its first call. Raises UnsupportedCompilation."""
            # not earlier: packages compile functions that a program never calls
            nonlocal compiled
            if obstacle:
                raise UnsupportedCompilation(f"{obstacle}. {HINT}")
            if compiled is None:
                compiled = torch_compile(
                    function,
                    backend=partial(choose_backend(watch), options=options.get("options")),
                    fullgraph=options.get("fullgraph", False),
                    dynamic=options.get("dynamic"),
                )
            with ExitStack() as stack:
                # Dynamo would trace what modes do to functions
                while torch._C._len_torch_function_stack():
                    stack.enter_context(_pop_mode_temporarily())
                return compiled(*args, **kwargs)

        return call

    return compile_function


def choose_backend(watch: Watch) -> Callable[..., Any]:
    """Return the backend of `torch.compile` that compiles for the simulated GPU.

    Raises UnsupportedCompilation.
    """
    try:
        # its import takes seconds, and fails where a release has another Inductor
        from framebench.devices.simulation import torch_inductor

        if not watch.is_compiled:
            torch_inductor.compile_for_gpu(watch.gpu)
    except (ImportError, AttributeError) as error:
        raise UnsupportedCompilation(
            f"the Inductor of PyTorch {torch.__version__} differs from that of 2.13, which "
            f"is simulated ({error}). {HINT}"
        ) from error
    watch.is_compiled = True
    return torch_inductor.compile_graph


def explain_refused_options(
    mode: str | None = None,
    backend: Any = "inductor",
    options: dict[str, Any] | None = None,
    **_: Any,
) -> str | None:
    """Return why `torch.compile` with these options cannot be simulated, or None if it can."""
    if not hasattr(TorchDispatchMode, "ignore_compile_internals"):
        return f"PyTorch {torch.__version__} compiles nothing on tensors without numbers"
    if backend != "inductor":
        return f"only Inductor's steps are simulated, and not those of the backend {backend!r}"
    if mode in MODES:
        return f"torch.compile(mode={mode!r}) is not simulated: {MODES[mode]}"
    for option, why in REFUSED_OPTIONS.items():
        if (options or {}).get(option):
            return f"torch.compile with the option {option!r} is not simulated: {why}"
    return None
