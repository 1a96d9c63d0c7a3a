"""Copies that batch norm makes on a GPU of tensors in another memory format.

cuDNN computes it in the format of the input, channels last or contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format
from torch.nn import functional

from framebench.devices.simulation.torch_gpu import Gpu
from framebench.devices.simulation.torch_requests import copy_unless_contiguous, give_back

MOST_SAMPLES_IN_TRAINING, MOST_SAMPLES = 880_801, 65_535
MOST_ELEMENTS = 2**31 - 1


def is_batch_norm_by_cudnn(
    values: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
) -> bool:
    """Return whether cuDNN normalizes these values, and not a kernel of PyTorch's own.

    `_select_batch_norm_backend` in ATen/native/Normalization.cpp. A layer with a weight has a bias.
    """
    if weight is None or not torch.backends.cudnn.enabled or values.dim() < 3:
        return False
    if torch.bfloat16 in (values.dtype, weight.dtype):
        return False
    if values.dtype == torch.float16 and weight.dtype != torch.float32:
        return False
    if (running_mean is None) != (running_var is None) or (running_mean is None and not training):
        return False
    most_samples = MOST_SAMPLES_IN_TRAINING if training else MOST_SAMPLES
    return values.shape[0] <= most_samples and values.numel() < MOST_ELEMENTS


def normalize_batch(
    values: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return what `functional.batch_norm` does, of the values as cuDNN gets them.

    Values that are dense in no memory format are copied, and the copy is what the backward pass
    keeps (`_batch_norm_impl_index` in ATen/native/Normalization.cpp).
    """
    if is_batch_norm_by_cudnn(values, weight, running_mean, running_var, training):
        values = values.contiguous(memory_format=suggest_memory_format(values))
    return functional.batch_norm(
        values, running_mean, running_var, weight, bias, training, momentum, eps
    )


def batch_norm_backward(
    results: list[Tensor | None], args: tuple[Any, ...], _: Gpu
) -> Iterator[Tensor | int | None]:
    """Yield the requests for copies of gradient and input, then the results.

    Copies are given back after the results. cuDNN gets the gradient in the input's memory format
    (`cudnn_batch_norm_backward` in ATen/native/cudnn/BatchNorm.cpp). PyTorch's own kernel reads
    both as (samples, channels, positions) and copies what has no such view
    (`batch_norm_backward_cuda_template` in ATen/native/cuda/Normalization.cuh).
    """
    gradient, values = args[:2]
    if is_backward_by_cudnn(args):
        copies = copy_unless_contiguous(gradient, suggest_memory_format(values))
    else:
        copies = [
            tensor.nbytes for tensor in (values, gradient) if not has_view_of_positions(tensor)
        ]
    yield from copies
    yield from results
    yield from give_back(copies)


def is_backward_by_cudnn(args: tuple[Any, ...]) -> bool:
    """Return whether cuDNN computes the gradient, which it does not where statistics are given."""
    _, values, weight, running_mean, running_var = args[:5]
    is_in_training = args[7]
    return is_in_training and is_batch_norm_by_cudnn(
        values, weight, running_mean, running_var, is_in_training
    )


def find_gradient_format(args: tuple[Any, ...]) -> torch.memory_format:
    """Return the memory format of the gradient of a batch norm's input, by the kernel that runs.

    See `cudnn_batch_norm_backward`, and `batch_norm_backward_cuda` in
    ATen/native/cuda/Normalization.cu.
    """
    gradient, values = args[:2]
    if is_backward_by_cudnn(args):
        return suggest_memory_format(values)
    is_in_training = args[7]
    if not is_in_training:
        return torch.contiguous_format
    for tensor in (gradient, values):
        if tensor.dim() != 4 or not tensor.is_contiguous(memory_format=torch.channels_last):
            return torch.contiguous_format
    return torch.channels_last


def has_view_of_positions(tensor: Tensor) -> bool:
    """Return whether all dimensions after the channels can be viewed as one, without a copy."""
    distance: int | None = (
        None  # between neighbours of the dimension, if it continues the inner ones
    )
    for size, stride in reversed(list(zip(tensor.shape[2:], tensor.stride()[2:]))):
        if size == 1:
            continue
        if distance is not None and stride != distance:
            return False
        distance = size * stride
    return True
