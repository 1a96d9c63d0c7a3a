"""What PyTorch's switches set or wrap, see `adapters/parts.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from framebench.adapters.base import State
from framebench.adapters.parts import Hooks, Options, Parts


@dataclass
class Recipe(Parts):
    """How a case is built, and what its step does."""

    step: Callable[[], None]  # the whole of it
    forward: Callable[..., Tensor]
    objective: Callable[[Tensor, Tensor], Tensor]  # the loss of inputs and targets
    backward: Callable[[Tensor], object]
    optimizer: Callable[..., Any]  # makes one, of the workload's settings and the trained weights
    scaler: torch.amp.GradScaler
    evaluates: bool  # the mode of batch norm
    models: Callable[[], Iterable[nn.Module]]  # `pair`: the two, one after the other
    model_options: Options
    optimizer_options: Options
    zero_grad_options: Options
    on_model: Hooks[[Any]]  # what is done to the workload's model once it has its weights
    block_runner: Callable[..., Any] | None = None  # the model's own if None
    dtype: torch.dtype = torch.float32  # of weights and inputs
    on_input: Callable[[Tensor], Tensor] = lambda x: x
    contexts: list[Callable[[], AbstractContextManager[Any]]] = field(default_factory=list)  # anew around every forward pass
    share: slice = field(default_factory=lambda: slice(None))  # of the batch: what this rank computes
    replicate: Callable[..., nn.Module] = nn.parallel.DistributedDataParallel


@dataclass
class Readings(Parts):
    """How a case is read between two steps."""

    decoded: Callable[[], np.ndarray]  # `generate`: the logits of all tokens after the prompt
    gathered: Callable[[], AbstractContextManager[Any]]  # entered while weights are read
    profiled: bool = False  # an observed step is counted by the profiler: nothing compiles under a dispatch mode
    passes_told: bool = True  # whether the profiler can tell forward passes apart
    mean_of_ranks: Callable[[Tensor], Tensor] = lambda loss: loss
    rows_of_ranks: Callable[[Tensor], Tensor] = lambda output: output
    states: Callable[[Iterator[State]], Iterator[State]] = lambda own: own  # the whole model's, of those that are found here
    bytes_beside: Callable[[], int] = lambda: 0  # that no tensor here refers to
    bytes_by_part: Callable[[], dict[str, int]] = dict  # what a rank holds where no attribute of a weight has it


@dataclass
class Process(Parts):
    """Settings of the whole process, made when the model is."""

    attention: tuple[str, ...]  # the kernels that scaled_dot_product_attention may choose from
    tf32: tuple[bool, bool] = (False, False)  # of matrix products, of cuDNN
    tries_algorithms: bool = False  # cuDNN, for every new shape
    activation_budget: float = 1.0  # the share of what a compiled step keeps by default
