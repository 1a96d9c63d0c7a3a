"""The parts that Jittor's switches set or wrap besides Jittor's flags, see `adapters/parts.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jittor import Module, Var

from framebench.adapters.parts import AdapterParts, Hooks, PartOptions, refuse_unset


@dataclass
class JittorRecipe(AdapterParts):
    """The functions and settings by which a case is built and makes its step."""

    step: Callable[[], None]  # the whole step
    loss: Callable[[Var, Var], Var]  # of inputs and targets
    evaluates: bool  # the mode of batch norm
    keeps_graph: bool
    build_options: PartOptions  # of the model
    on_model: Hooks[[Module]]  # called with the model once it has its weights
    dtype: str = "float32"  # of weights and inputs
    keeps_pool: bool = False  # whether the pool is not emptied before memory is measured
    read_logits: Callable[[], np.ndarray] = refuse_unset  # `generate`: the logits of all tokens
    models: Callable[[], Iterator[Module]] = refuse_unset  # `pair`: one model after the other
