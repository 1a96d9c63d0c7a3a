"""What CUDA's kernels allocate next to their results.

Here is only what PyTorch asks its own allocator for, as its source determines. The workspace of a
convolution is decided by cuDNN's heuristics, which are asked where this environment has cuDNN
(`torch_convolutions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil, prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from framebench.devices.simulation import torch_norms, torch_sorts, torch_sums
from framebench.devices.simulation.blocks import round_up
from framebench.devices.simulation.torch_convolutions import find_workspace
from framebench.devices.simulation.torch_device import choose_convolution_layout
from framebench.devices.simulation.torch_gpu import Gpu
from framebench.devices.simulation.torch_requests import (
    copy_unless_contiguous,
    give_back,
    take_and_return,
)

WITHOUT_CUDNN = (
    "workspaces of convolutions, and of cuDNN's attention beyond its sums, are chosen by cuDNN's "
    "heuristics on the GPU"
)
NOT_HELD = (
    "where a GPU chooses otherwise: workspaces of convolutions are what cuDNN {} answers without "
    "one, and an H200 chose others for some of ResNet-50's (docs/devices.md); those of depthwise "
    "convolutions, and of cuDNN's attention beyond its sums",
    # what was in use less what was reserved: BERT in optimum-benchmark's CUDA runs; a process with
    # one number on a V100, in the documentation of Transformers 4.21
    "the context, kernels and handles of libraries lie outside the allocator: 617 and 1,343 MiB "
    "on two measured GPUs",
)
# they take a handle of cuBLAS, and the first one of a thread takes a workspace
MATMULS = {
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "addbmm",
    "mv",
    "addmv",
    "dot",
    "vdot",
    "_addmm_activation",
    "_int_mm",
    "_scaled_mm",
    "gemm_4bit",
}
FLOAT = 4  # bytes
Args = tuple[Any, ...]  # of an operator
Results = list[Tensor | None]
Requests = Iterable[Tensor | int | None]  # results in their order, and bytes between them


def is_matmul_by_lt(operator: str, args: Args) -> bool:
    """Return whether a matmul has a bias of one dimension, and so goes through cuBLASLt.

    `isInputCompliesAddmmCudaLt` in ATen/native/cuda/Blas.cpp.
    """
    if operator not in ("addmm", "_addmm_activation") or args[0].dim() != 1:
        return False
    bias, _, other = args[:3]
    return bool(bias.is_contiguous() and other.shape[0] > 1 and other.shape[1] > 1)


def lay_out_results(operator: str, args: Args, out: Any) -> Any:
    """Return an operator's results in the memory format that they have on a GPU.

    A group norm's are contiguous whatever its input is (ATen/native/group_norm.cpp).
    """
    if operator == "native_group_norm":
        return tree_map_only(Tensor, Tensor.contiguous, out)
    if operator == "native_batch_norm_backward" and out[0] is not None:
        memory_format = torch_norms.find_gradient_format(args)
        return (out[0].contiguous(memory_format=memory_format), *out[1:])
    return out


def order_results(operator: str, results: Results, args: Args, gpu: Gpu) -> Requests:
    """Return results in the order in which a kernel asks for them, and its requests in between."""
    if operator == "native_dropout":  # the mask comes first (`dropout_cuda` in Dropout.cu)
        return reversed(results)
    if operator in AROUND_RESULTS:
        return AROUND_RESULTS[operator](results, args, gpu)
    return results


def place_keywords(func: Any, args: Args, kwargs: Mapping[str, Any]) -> Args:
    """Return the arguments of an operator in the order of its schema, defaults included."""
    places = []
    for place, argument in enumerate(func._schema.arguments):
        if place < len(args):
            places.append(args[place])
        else:
            places.append(kwargs.get(argument.name, argument.default_value))
    return tuple(places)


def copy_operands(args: Args, _: Gpu) -> Iterator[int]:
    """Return the requests of copies of matrices without a stride of 1.

    A port of `prepare_matrix_for_cublas` and `prepare_batch_matrix_for_cublas`.
    """
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    copies = []
    for matrix in tensors[-2:]:  # before them there may be a bias
        if matrix.dim() < 2:
            continue
        rows, columns = matrix.shape[-2:]
        down, across = matrix.stride()[-2:]
        is_row_major = across == 1 and down >= max(1, columns)
        is_column_major = down == 1 and across >= max(1, rows)
        if not is_row_major and not is_column_major:
            copies.append(matrix.nbytes)
    return take_and_return(*copies)


def flash_backward(args: Args, _: Gpu) -> Iterator[int]:
    """Return the requests of flash attention's backward pass.

    Gradients and outputs are made contiguous; then come sums of softmax and of the queries'
    gradients in float32, and gradients of as many heads of keys as there are queries (`mha_bwd`
    in transformers/cuda/flash_attn/flash_api.cpp).
    """
    gradient, query, key, _, out = args[:5]
    batch, heads, length, width = query.shape
    temporaries = copy_unless_contiguous(gradient.transpose(1, 2))
    temporaries += copy_unless_contiguous(out.transpose(1, 2))
    temporaries += measure_flash_sums(batch * heads * round_up(length, 128), width)
    key_heads, key_length = key.shape[1:3]
    if key_heads != heads:
        expanded = batch * key_length * heads * width * key.element_size()
        temporaries += [expanded, expanded]  # gradients of keys and of values
    return take_and_return(*temporaries)


def packed_flash_backward(args: Args, _: Gpu) -> Iterator[int]:
    """Return the requests of flash attention's backward pass of packed sequences, such as nested.

    Each sequence has 128 more rows of sums (`mha_varlen_bwd` in the same file).
    """
    gradient, query, key, _, out, _, offsets = args[:7]
    temporaries = copy_unless_contiguous(gradient) + copy_unless_contiguous(out)
    if offsets is not None:
        length, heads, width = query.shape
        temporaries += measure_flash_sums(heads * (length + 128 * (len(offsets) - 1)), width)
        if key.shape[1] != heads:
            expanded = len(key) * heads * width * key.element_size()
            temporaries += [expanded, expanded]  # gradients of keys and of values
    return take_and_return(*temporaries)


def measure_flash_sums(rows: int, width: int) -> list[int]:
    """Return the bytes of flash attention's sums of softmax, and of queries' gradients."""
    multiple = 32 if width <= 128 else 64
    return [rows * FLOAT, rows * round_up(width, multiple) * FLOAT]


def cudnn_backward(args: Args, _: Gpu) -> Iterator[int]:
    """Return the requests of cuDNN's workspace: queries' gradients in float32, a sum per query.

    For grouped heads it also has gradients of as many as there are queries. Source: cuDNN's open
    frontend (node/scaled_dot_product_flash_attention.h, since cuDNN 9.0). What cuDNN's plan takes
    beyond that is not known.
    """
    query, key = args[1:3]
    batch, heads, length, width = query.shape
    size = batch * heads * length * (width + 1) * FLOAT
    if key.shape[1] != heads:
        size += 2 * batch * heads * key.shape[2] * width * key.element_size()
    return take_and_return(size)


def efficient_backward(args: Args, gpu: Gpu) -> Iterator[int]:
    """Yield the requests of the backward pass of memory-efficient attention.

    First comes `delta`: the product of output and gradient, summed over a head, in float32; then
    the workspace (`_efficient_attention_backward` in transformers/cuda/attention_backward.cu).
    """
    gradient, query, key, value, _, out = args[:6]
    batch, heads, length, _ = query.shape
    copies = copy_unless_contiguous(gradient.transpose(1, 2))
    delta = batch * heads * length * FLOAT
    workspace = efficient_workspace(query, key, value, gpu)
    yield from copies
    if query.dtype == torch.float32:
        whole = out.numel() * FLOAT
        yield from (whole, delta, -whole, delta, -delta)
    else:
        yield delta
    yield from (workspace, -workspace, -delta)
    yield from give_back(copies)


def efficient_workspace(query: Tensor, key: Tensor, value: Tensor, gpu: Gpu) -> int:
    """Return the bytes of the workspace of memory-efficient attention's backward pass.

    It has a tile of float32 with a lock for each block of queries; and tiles for keys and values,
    if heads in half precision do not fit into registers. A port of `workspace_size` of
    AttentionBackwardKernel in mem_eff_attention/kernel_backward.h.
    """
    batch, heads, length, width = query.shape
    value_width = value.shape[-1]
    widest = max(width, value_width)
    is_half = query.dtype != torch.float32
    rows = columns = 64  # of a tile
    if gpu.capability in ((8, 0), (8, 7), (9, 0), (10, 0)):  # shared memory of 128 KiB and more
        if widest > 64:
            rows = 128
        if is_half and 64 < widest <= 128:
            columns = 128
    elements = 0
    if is_half or gpu.capability >= (7, 0):  # these kernels accumulate in float32
        tiles = ceil(length / rows) * ceil(width / columns)
        elements += tiles * (rows * columns + 16 // FLOAT)
    if is_half and widest > rows:
        blocks_of_keys = ceil(key.shape[2] / columns)
        splits = max(1, min(blocks_of_keys, 200 // (batch * heads)))
        padded_width = round_up(width, rows) + round_up(value_width, rows)
        elements += splits * columns * padded_width
    return batch * heads * round_up(elements, 4) * FLOAT


def convolution(results: Results, args: Args, gpu: Gpu) -> Requests:
    """Yield the result, then requests for copies of operands in cuDNN's order and a workspace.

    A port of `cudnn_convolution` in ATen/native/cudnn/ConvShared.cpp.
    """
    values, weight = args[:2]
    yield from results
    order = choose_convolution_layout(values, weight)
    copies = copy_unless_contiguous(values, order) + copy_unless_contiguous(weight, order)
    (out,) = results
    assert out is not None
    workspace = find_workspace("forward", values, weight, out.shape, args[3:9], gpu)
    yield from take_and_return(*copies, *workspace)


def convolution_backward(results: Results, args: Args, gpu: Gpu) -> Requests:
    """Yield the gradient of the input with its workspace, then that of the weight with its own.

    Copies of the gradient and the input live until both are there, a copy of the weight only for
    the first. A port of `cudnn_convolution_backward` in the same file; the gradient of the bias is
    a sum (`convolution_backward` in ATen/native/Convolution.cpp).
    """
    gradient, values, weight = args[:3]
    needs_weight_gradient = args[10][1]
    order = choose_convolution_layout(values, weight)
    copies = copy_unless_contiguous(values, order) if needs_weight_gradient else []
    copies += copy_unless_contiguous(gradient, order)
    yield from copies
    weight_copy = copy_unless_contiguous(weight, order)
    for kind, result, copy in (("data", results[0], weight_copy), ("filter", results[1], [])):
        if result is not None:
            yield result
            workspace = find_workspace(kind, values, weight, gradient.shape, args[4:10], gpu)
            yield from take_and_return(*copy, *workspace)
    yield from give_back(copies)
    yield from results[2:]


def gemm_4bit(results: Results, args: Args, _: Gpu) -> Requests:
    """Yield the bytes of the unpacked weight, then the results, then the return of these bytes.

    A port of `_dequant_linear_fallback` in bitsandbytes/backends/cuda/ops.py. For a batch of few
    rows (up to 1,536 by GPU and shape) a kernel reads the packed weight instead. That is not
    modelled: one weight too many is counted there.
    """
    activations, _packed_weight, weight_shape = args[:3]
    unpacked_bytes = prod(weight_shape) * activations.element_size()
    yield unpacked_bytes
    yield from results
    yield -unpacked_bytes


def copy_two_inputs(args: Args, _: Gpu) -> Iterator[int]:
    """Return the requests of contiguous copies of the first two inputs.

    See layer_norm_kernel.cu, `host_softmax` and `host_softmax_backward` in SoftMax.cu, and
    NLLLoss2d.cu, all in ATen/native/cuda; and ATen/native/group_norm.cpp.
    """
    copies = []
    for arg in args[:2]:
        if isinstance(arg, Tensor):
            copies += copy_unless_contiguous(arg)
    return take_and_return(*copies)


def softmax_backward(args: Args, gpu: Gpu) -> Iterator[int]:
    """Yield a request for gradient times probabilities, which lives during the whole call.

    A port of `softmax_backward_cuda_out` in the same file.
    """
    product = args[0] * args[1]
    yield product.nbytes
    yield from copy_two_inputs((product, args[1]), gpu)
    yield -product.nbytes


def ctc_backward(args: Args, _: Gpu) -> Iterator[int]:
    """Return the requests of the backward variables, which are as many as the forward ones.

    See `ctc_loss_backward_gpu_template` in ATen/native/cuda/LossCTC.cu.
    """
    log_alpha = args[6]
    return take_and_return(log_alpha.nbytes)


AROUND_RESULTS: dict[str, Callable[[Results, Args, Gpu], Requests]] = {
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    "embedding_dense_backward": torch_sums.embedding_backward,
    "gemm_4bit": gemm_4bit,
    "native_batch_norm_backward": torch_norms.batch_norm_backward,
}
TEMPORARIES: dict[str, Callable[[Args, Gpu], Iterable[int]]] = {
    **torch_sorts.TEMPORARIES,
    "mm": copy_operands,
    "addmm": copy_operands,
    "bmm": copy_operands,
    "baddbmm": copy_operands,
    "_flash_attention_backward": packed_flash_backward,
    "_scaled_dot_product_flash_attention_backward": flash_backward,
    "_scaled_dot_product_efficient_attention_backward": efficient_backward,
    "_scaled_dot_product_cudnn_attention_backward": cudnn_backward,
    "_ctc_loss_backward": ctc_backward,
    "native_layer_norm": copy_two_inputs,
    "native_layer_norm_backward": copy_two_inputs,
    "native_group_norm": copy_two_inputs,
    "nll_loss2d_forward": copy_two_inputs,
    "_fused_rms_norm": copy_two_inputs,
    "_fused_rms_norm_backward": copy_two_inputs,
    "_softmax": copy_two_inputs,
    "_log_softmax": copy_two_inputs,
    "_log_softmax_backward_data": copy_two_inputs,
    "_softmax_backward_data": softmax_backward,
    "sum": torch_sums.sum_columns,
}
