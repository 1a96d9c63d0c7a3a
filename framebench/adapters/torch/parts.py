"""The parts of the PyTorch adapter that switches set or wrap, see `adapters/parts.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from framebench.adapters.base import State
from framebench.adapters.parts import AdapterParts, Hooks, PartOptions

T = TypeVar("T")


def return_unchanged(value: T) -> T:
    """Return the value: the default of parts that strategies set."""
    return value


@dataclass
class TorchRecipe(AdapterParts):
    """The functions and settings by which a case is built and makes its step."""

    step: Callable[[], None]  # the whole step
    forward: Callable[..., Tensor]
    objective: Callable[[Tensor, Tensor], Tensor]  # returns the loss of inputs and targets
    backward: Callable[[Tensor], object]
    optimizer: Callable[..., Any]  # makes one of the workload's settings and the trained weights
    scaler: torch.amp.GradScaler
    evaluates: bool  # whether the model is in evaluation mode, which batch norm depends on
    models: Callable[[], Iterable[nn.Module]]  # `pair`: yields the two, one after the other
    model_options: PartOptions
    optimizer_options: PartOptions
    zero_grad_options: PartOptions
    on_model: Hooks[[Any]]  # called with the workload's model once it has its weights
    block_runner: Callable[..., Any] | None = None  # the model's own if None
    dtype: torch.dtype = torch.float32  # of weights and inputs
    on_input: Callable[[Tensor], Tensor] = return_unchanged
    # entered again around every forward pass
    contexts: list[Callable[[], AbstractContextManager[Any]]] = field(default_factory=list)
    share: slice = field(default_factory=lambda: slice(None))  # of the batch, for this rank
    replicate: Callable[..., nn.Module] = nn.parallel.DistributedDataParallel


@dataclass
class Readings(AdapterParts):
    """The functions and settings by which results are read between two steps."""

    read_logits: Callable[[], np.ndarray]  # `generate`: of all tokens, those of the prompt too
    gather_weights: Callable[[], AbstractContextManager[Any]]  # entered while weights are read
    # An observed step is counted by the profiler, since nothing compiles under a dispatch mode.
    uses_profiler: bool = False
    counts_passes: bool = True  # whether the profiler can tell forward passes apart
    mean_of_ranks: Callable[[Tensor], Tensor] = return_unchanged
    rows_of_ranks: Callable[[Tensor], Tensor] = return_unchanged
    # from the states of this process to those of the whole model
    states: Callable[[Iterator[State]], Iterator[State]] = return_unchanged
    extra_bytes: Callable[[], int] = lambda: 0  # bytes in no tensor that the adapter knows
    # bytes of a rank's parts that are in no attribute of a weight
    bytes_by_part: Callable[[], dict[str, int]] = dict


@dataclass
class Process(AdapterParts):
    """Settings of the whole process, made when the model is."""

    attention: tuple[str, ...]  # kernels that scaled_dot_product_attention may choose from
    tf32: tuple[bool, bool] = (False, False)  # of matmuls, of cuDNN
    tries_algorithms: bool = False  # cuDNN, for every new shape
    # the share that a compiled step may keep of the activations that it keeps by default
    activation_budget: float = 1.0
