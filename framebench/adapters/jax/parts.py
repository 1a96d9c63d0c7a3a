"""What JAX's switches set or wrap, see `adapters/parts.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import optax
from flax import nnx
from jax import Array
from jax.sharding import Sharding

from framebench.adapters.jax.accumulation import Tree
from framebench.adapters.parts import Options, Parts


def _unset(*_: Any) -> Any:
    """Of a scenario that is not the case's, or whose strategies make it."""
    raise LookupError("no strategy of the case has set this part")


@dataclass
class Recipe(Parts):
    """How a case is built, and what its step does."""

    step: Callable[[], None]  # the whole of it
    optimizer: optax.GradientTransformation
    loss: Callable[[Any, Array, Array, Tree], Array]  # of what the model gives, the batch and the step's constants
    training: bool  # the mode of batch norm
    model_options: Options  # of the model's build()
    jit_options: Options
    compiler_options: Options
    decoding: Callable[[nnx.GraphDef], Callable[..., Any]] = _unset  # `generate`: the program of one token
    generating: Callable[[], tuple[Any, ...]] = _unset  # its arguments
    decoded: Callable[[], np.ndarray] = _unset  # the logits of all tokens
    models: Callable[[], Iterator[tuple[Tree, Tree]]] = _unset  # `pair`: parameters and statistics, one after the other
    width: Any = np.float32  # of the weights, the optimizer's state and the inputs
    precision: str = "highest"  # of float32 products
    trained: Callable[[str], bool] = lambda name: True  # by canonical name
    calls: int = 1  # of the compiled step, each with its part of the batch
    eager: bool = False
    from_state: Callable[[Tree], dict[str, Array]] = lambda state: {}  # constants that the optimizer's state decides
    keeps_graph: bool = False  # evaluation that returns the residuals of a backward pass
    sharding: Callable[[str, tuple[int, ...]], Sharding] | None = None  # of an array, over several devices
    values: Callable[[Array], np.ndarray] = np.asarray  # of an array, on the host
