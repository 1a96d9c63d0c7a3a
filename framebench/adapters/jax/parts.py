"""The parts that JAX's switches set or wrap, see `adapters/parts.py`."""

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
from framebench.adapters.parts import AdapterParts, PartOptions, refuse_unset


@dataclass
class JaxRecipe(AdapterParts):
    """The functions and settings by which a case is built and makes its step."""

    step: Callable[[], None]  # the whole of it
    optimizer: optax.GradientTransformation
    loss: Callable[[Any, Array, Array, Tree], Array]  # of (the model's output, x, y, constants)
    training: bool  # the mode of batch norm
    model_options: PartOptions  # of the model's build()
    jit_options: PartOptions
    compiler_options: PartOptions
    # `generate`: the program of one token, its arguments, and the logits of all tokens
    decoder: Callable[[nnx.GraphDef], Callable[..., Any]] = refuse_unset
    decoder_arguments: Callable[[], tuple[Any, ...]] = refuse_unset
    read_logits: Callable[[], np.ndarray] = refuse_unset
    # `pair`: parameters and statistics of one model after the other
    models: Callable[[], Iterator[tuple[Tree, Tree]]] = refuse_unset
    dtype: Any = np.float32  # of the weights, the optimizer's state and the inputs
    precision: str = "highest"  # of float32 products
    is_trained: Callable[[str], bool] = lambda name: True  # of a weight, by its canonical name
    calls: int = 1  # of the compiled step, each with its part of the batch
    eager: bool = False
    # constants of the step that the optimizer's state decides
    constants_from_state: Callable[[Tree], dict[str, Array]] = lambda state: {}
    keeps_graph: bool = False  # whether evaluation returns the residuals of a backward pass
    # where an array of this tree and shape lies, over several devices
    sharding: Callable[[str, tuple[int, ...]], Sharding] | None = None
    to_numpy: Callable[[Array], np.ndarray] = np.asarray
