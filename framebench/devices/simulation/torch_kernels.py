"""What CUDA's kernels allocate beside their results: workspaces that stay, and temporaries that die with the call.

Only what PyTorch itself asks its allocator for and what its source determines is here. What cuDNN takes for a
convolution is decided by its heuristics, which are asked where this environment has them (`torch_convolutions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from framebench.devices.simulation import torch_sums
from framebench.devices.simulation.torch_card import Card
from framebench.devices.simulation.torch_convolutions import workspaces
from framebench.devices.simulation.torch_device import layout

WITHOUT_CUDNN = (
    "workspaces of convolutions, and of cuDNN's attention beyond its sums, are chosen by cuDNN's heuristics on the card"
)
NOT_HELD = (
    "where a card chooses otherwise: workspaces of convolutions are what cuDNN {} answers without one, and an H200 chose "
    "others for some of ResNet-50's (docs/devices.md); those of depthwise convolutions, and of cuDNN's attention beyond "
    "its sums",
    # what was in use less what was reserved: BERT in optimum-benchmark's CUDA runs; a process with one number on a V100, in the
    # documentation of Transformers 4.21
    "the context, kernels and handles of libraries lie outside the allocator: 617 and 1,343 MiB on two measured cards",
)
PRODUCTS = {
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
}
FLOAT = 4  # bytes
Taken = tuple[int, bool]  # bytes, and whether they are taken (True) or given back


def multiple(size: int, of: int) -> int:
    return -(-size // of) * of


def product(operator: str) -> bool:
    """Whether it takes a handle of cuBLAS, and with the first one per thread a workspace."""
    return operator in PRODUCTS


def by_lt(operator: str, args: tuple[Any, ...]) -> bool:
    """Products with a bias of one dimension go through cuBLASLt (`isInputCompliesAddmmCudaLt` in ATen/native/cuda/Blas.cpp)."""
    if operator not in ("addmm", "_addmm_activation") or args[0].dim() != 1:
        return False
    bias, _, other = args[:3]
    return bool(bias.is_contiguous() and other.shape[0] > 1 and other.shape[1] > 1)


def as_allocated(operator: str, results: list[Any], args: tuple[Any, ...], card: Card) -> Iterable[Any]:
    """Results as the kernel asks for them, and between them what it takes or gives back: dropout makes its mask first
    (`dropout_cuda` in ATen/native/cuda/Dropout.cu)."""
    if operator == "convolution_backward":
        return _convolution_backward(results, args, card)
    if operator == "embedding_dense_backward":
        return torch_sums.of_embedding(results, args)
    return results[::-1] if operator == "native_dropout" else results


def temporaries(operator: str, args: tuple[Any, ...], card: Card) -> Iterator[Taken]:
    """In the order in which they come and go, after the results are there."""
    if make := TEMPORARIES.get(operator):
        yield from make(args, card)


def _passing(*sizes: int) -> Iterator[Taken]:
    """All are alive at once."""
    for size in sizes:
        yield size, True
    for size in reversed(sizes):
        yield size, False


def _copied(tensor: Tensor, order: torch.memory_format = torch.contiguous_format) -> tuple[int, ...]:
    """Bytes of the copy that a kernel makes of what is not contiguous in this order."""
    return () if tensor.is_contiguous(memory_format=order) else (tensor.numel() * tensor.element_size(),)


def _for_blas(tensor: Tensor) -> tuple[int, ...]:
    """A matrix without a stride of 1 is copied (prepare_matrix_for_cublas, prepare_batch_matrix_for_cublas)."""
    if tensor.dim() < 2:
        return ()
    (rows, columns), (down, across) = tensor.shape[-2:], tensor.stride()[-2:]
    fits = (across == 1 and down >= max(1, columns)) or (down == 1 and across >= max(1, rows))
    return () if fits else (tensor.numel() * tensor.element_size(),)


def _operands(args: tuple[Any, ...], _: Card) -> Iterator[Taken]:
    matrices = [a for a in args if isinstance(a, Tensor)][-2:]
    yield from _passing(*(size for m in matrices for size in _for_blas(m)))


def _flash_backward(args: tuple[Any, ...], _: Card) -> Iterator[Taken]:
    """`mha_bwd` in transformers/cuda/flash_attn/flash_api.cpp: gradients and outputs made contiguous, then sums of softmax and
    of the queries' gradients in float32, and gradients of as many heads of keys as there are queries."""
    gradient, query, key, _, out = args[:5]
    batch, heads, length, width = query.shape
    rounded = multiple(length, 128)
    sums = batch * heads * rounded * FLOAT
    accumulated = batch * rounded * heads * multiple(width, 32 if width <= 128 else 64) * FLOAT
    grouped = key.shape[1] != heads
    expanded = 2 * (batch * key.shape[2] * heads * width * key.element_size(),) if grouped else ()
    copies = (*_copied(gradient.transpose(1, 2)), *_copied(out.transpose(1, 2)))
    yield from _passing(*copies, sums, accumulated, *expanded)


def _cudnn_backward(args: tuple[Any, ...], _: Card) -> Iterator[Taken]:
    """One workspace. cuDNN's open frontend (node/scaled_dot_product_flash_attention.h, since cuDNN 9.0) has in it the queries'
    gradient in float32, a sum per query and, of grouped heads, gradients of as many as there are queries. What cuDNN's plan
    takes besides is not known."""
    _, query, key = args[:3]
    batch, heads, length, width = query.shape
    grouped = key.shape[1] != heads
    expanded = grouped * 2 * batch * heads * key.shape[2] * width * key.element_size()
    yield from _passing(batch * heads * length * (width + 1) * FLOAT + expanded)


def _efficient_backward(args: tuple[Any, ...], card: Card) -> Iterator[Taken]:
    """`_efficient_attention_backward` in transformers/cuda/attention_backward.cu: in float32 the product of output and
    gradient, summed over a head; then the workspace."""
    gradient, query, key, value, _, out = args[:6]
    batch, heads, length, _ = query.shape
    copies = _copied(gradient.transpose(1, 2))
    delta = batch * heads * length * FLOAT
    workspace = efficient_workspace(query, key, value, card)
    for size in copies:
        yield size, True
    if query.dtype == torch.float32:
        whole = out.numel() * FLOAT
        yield from ((whole, True), (delta, True), (whole, False), (delta, True), (delta, False))
    else:
        yield delta, True
    yield from _passing(workspace)
    yield delta, False
    for size in copies:
        yield size, False


def efficient_workspace(query: Tensor, key: Tensor, value: Tensor, card: Card) -> int:
    """`workspace_size` of AttentionBackwardKernel in mem_eff_attention/kernel_backward.h: a tile of float32 for each block of
    queries with its lock; and, of half-precision heads that do not fit into registers, for keys and values."""
    batch, heads, length, width = query.shape
    half = query.dtype != torch.float32
    width, width_value = query.shape[-1], value.shape[-1]
    widest = max(width, width_value)
    roomy = card.capability in ((8, 0), (8, 7), (9, 0), (10, 0))  # shared memory of 128 KiB and more
    rows = 128 if widest > 64 and roomy else 64
    columns = 128 if half and 64 < widest <= 128 and roomy else 64
    in_registers = half and widest <= rows
    accumulates = half or card.capability >= (7, 0)
    tile = rows * columns * FLOAT + 16
    elements = accumulates * -(-length // rows) * -(-width // columns) * (tile // FLOAT)
    if half and not in_registers:
        splits = max(1, min(-(-key.shape[2] // columns), 200 // (batch * heads)))
        elements += splits * columns * (multiple(width, rows) + multiple(width_value, rows))
    return batch * heads * multiple(elements, 4) * FLOAT


def _convolution(args: tuple[Any, ...], card: Card) -> Iterator[Taken]:
    """Operands in another order than cuDNN's are copied (`cudnn_convolution` in ATen/native/cudnn/ConvShared.cpp)."""
    order = layout(args[0], args[1])
    copies = [size for operand in args[:2] for size in _copied(operand, order)]
    yield from _passing(*copies, *workspaces("forward", (*args[:2], *args[3:9]), card))


def _convolution_backward(results: list[Any], args: tuple[Any, ...], card: Card) -> Iterator[Any]:
    """The gradient of the input with its workspace, then that of the weight with its own (`cudnn_convolution_backward` in the
    same file); that of the bias is a sum (`convolution_backward` in ATen/native/Convolution.cpp). Copies of gradient and input
    are there all the while, that of the weight for the first."""
    gradient, values, weight = args[:3]
    order, settings, wanted = layout(values, weight), (*args[1:3], *args[4:10]), args[10]
    copies = [size for one in (values, gradient)[not wanted[1] :] for size in _copied(one, order)]
    yield from ((size, True) for size in copies)
    for kind, result, beside in zip(("data", "filter"), results, (_copied(weight, order), ())):
        if result is not None:
            yield result
            yield from _passing(*beside, *workspaces(kind, settings, card))
    yield from ((size, False) for size in reversed(copies))
    yield from results[2:]


def _layer_norm_backward(args: tuple[Any, ...], card: Card) -> Iterator[Taken]:
    """Inputs are made contiguous (layer_norm_kernel.cu)."""
    gradient, values = args[:2]
    yield from _passing(*_copied(gradient), *_copied(values))


def _softmax(args: tuple[Any, ...], _: Card) -> Iterator[Taken]:
    """Inputs are made contiguous (`host_softmax` and `host_softmax_backward` in ATen/native/cuda/SoftMax.cu)."""
    yield from _passing(*(size for one in args[:2] if isinstance(one, Tensor) for size in _copied(one)))


def _softmax_backward(args: tuple[Any, ...], card: Card) -> Iterator[Taken]:
    """The product of gradient and probabilities is there all the while (`softmax_backward_cuda_out` in the same file)."""
    product = args[0] * args[1]
    yield product.nbytes, True
    yield from _softmax((product, args[1]), card)
    yield product.nbytes, False


TEMPORARIES: dict[str, Callable[[tuple[Any, ...], Card], Iterator[Taken]]] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm"), _operands),
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
    "native_layer_norm_backward": _layer_norm_backward,
    **dict.fromkeys(("_softmax", "_log_softmax", "_log_softmax_backward_data"), _softmax),
    "_softmax_backward_data": _softmax_backward,
    "convolution": _convolution,
    "sum": torch_sums.of_columns,
}
