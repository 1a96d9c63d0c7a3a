"""What PyTorch asks cuDNN of a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import make_channels_last_strides_for, make_contiguous_strides_for

from framebench.devices.simulation import cudnn
from framebench.devices.simulation.cudnn import Convolution, Operand
from framebench.devices.simulation.torch_device import choose_convolution_layout
from framebench.devices.simulation.torch_gpu import Gpu

# the first release whose wheels have a cuDNN that can be asked: 9.10. Older ones chose otherwise
ASKED_SINCE = (2, 8)


class SlowConvolution(NotImplementedError):
    """A convolution that PyTorch runs without cuDNN, in memory that is not simulated."""


def find_workspace(
    kind: str,
    values: Tensor,
    weight: Tensor,
    out_shape: Sequence[int],
    settings: Sequence[Any],
    gpu: Gpu,
) -> list[int]:
    """Return the bytes of a convolution's workspace in a list.

    The list is empty without a workspace, and if cuDNN is not asked (`is_asked_of_cudnn`).

    Args:
        kind: forward, or the gradient of the data or of the filter.
        values: The convolution's input.
        weight: Its filters.
        out_shape: The shape of its output.
        settings: stride, padding, dilation, whether it is transposed, output padding and groups.
        gpu: The GPU that cuDNN is told of.

    Raises SlowConvolution.
    """
    stride, padding, dilation, transposed, _, groups = settings
    # `supportsBFloat16ConvolutionWithCuDNNv8` in ATen/cuda/detail/CUDAHooks.cpp
    is_unsupported = values.dtype == torch.bfloat16 and not gpu.device.has_bfloat16
    if is_unsupported and takes_workspace(values, groups):
        raise SlowConvolution(
            f"cuDNN has no convolutions in bfloat16 for {gpu.device.title}, and the memory of "
            "PyTorch's own slow ones is not simulated; this GPU computes in float16: amp_fp16"
        )
    if not is_asked_of_cudnn(values, weight, groups, gpu):
        return []
    if values.dim() == 3:  # view1d_as_2d in ATen/native/Convolution.cpp
        values, weight = values.unsqueeze(2), weight.unsqueeze(2)
        out_shape = (*out_shape[:2], 1, *out_shape[2:])
        stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
    axes = values.dim() - 2

    def repeat_for_axes(numbers: Sequence[int]) -> tuple[int, ...]:
        """Return a number for each axis; a single number is that of every axis."""
        if len(numbers) != axes:
            numbers = [*numbers] * axes
        return tuple(map(int, numbers))

    order = choose_convolution_layout(values, weight)
    x = make_operand(values.shape, order)
    filters = make_operand(weight.shape, order)
    y = make_operand(out_shape, order)
    # a transposed convolution is the gradient of a convolution's input, and the other way round
    if transposed:
        kind = {"forward": "data", "data": "forward"}.get(kind, kind)
        x, y = y, x
    question = Convolution(
        kind=kind,
        dtype=str(values.dtype).removeprefix("torch."),
        x=x,
        weight=filters,
        y=y,
        padding=repeat_for_axes(padding),
        stride=repeat_for_axes(stride),
        dilation=repeat_for_axes(dilation),
        tf32=torch.backends.cudnn.allow_tf32,
        deterministic=(
            torch.backends.cudnn.deterministic or torch.are_deterministic_algorithms_enabled()
        ),
    )
    size = cudnn.find_workspace_bytes(question, gpu.description, gpu.largest_workspaces)
    return [size] if size else []


def is_asked_of_cudnn(values: Tensor, weight: Tensor, groups: int, gpu: Gpu) -> bool:
    """Return whether cuDNN's heuristics can be asked, and choose the convolution's algorithm.

    They do not choose in benchmark mode, in which algorithms are measured.
    """
    can_be_asked = gpu.description and gpu.release >= ASKED_SINCE and cudnn.load_library()
    if not can_be_asked or torch.backends.cudnn.benchmark or values.dim() not in (3, 4, 5):
        return False
    is_known_type = str(values.dtype).removeprefix("torch.") in cudnn.TYPES
    return is_known_type and values.dtype == weight.dtype and takes_workspace(values, groups)


def takes_workspace(values: Tensor, groups: int) -> bool:
    """Return whether a convolution may take a workspace.

    A depthwise one does not: it has a kernel of PyTorch's own.
    """
    return groups == 1 or groups != values.shape[1]


def is_workspace_known(operator: str, args: Sequence[Any], gpu: Gpu) -> bool | None:
    """Return whether cuDNN is asked for the workspace of an operator, or None if it takes none."""
    if operator == "convolution":
        values, weight, groups = args[0], args[1], args[8]
    elif operator == "convolution_backward":
        values, weight, groups = args[1], args[2], args[9]
    else:
        return None
    if not takes_workspace(values, groups):
        return None
    return is_asked_of_cudnn(values, weight, groups, gpu)


def make_operand(shape: Sequence[int], order: torch.memory_format) -> Operand:
    """Return the shape and strides of a dense tensor in this memory format."""
    sizes = tuple(map(int, shape))
    if order == torch.contiguous_format:
        strides = make_contiguous_strides_for(sizes)
    else:
        strides = make_channels_last_strides_for(sizes)
    return Operand(sizes, tuple(strides))
