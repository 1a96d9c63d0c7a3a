"""Run the operators that `scaled_dot_product_attention` would run on a GPU.

The order and the conditions are those of `select_sdp_backend` in
ATen/native/transformers/cuda/sdp_utils.cpp; what is done around the kernel is that of
`scaled_dot_product_attention` in ATen/native/transformers/attention.cpp. Flash, efficient and cuDNN
save their output and one logarithm per query; math saves the matrix of probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from framebench.devices.simulation.torch_gpu import Gpu

aten = torch.ops.aten


@dataclass(frozen=True)
class AttentionCall:
    """The arguments of one call, as the conditions read them (`sdp_params`)."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    dropout: float
    causal: bool
    grouped: bool

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.query, self.key, self.value

    @property
    def is_half(self) -> bool:
        return self.query.dtype in (torch.float16, torch.bfloat16)

    @property
    def needs_gradients(self) -> bool:
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in self.tensors)

    def is_dense(self, allow_grouped: bool) -> bool:
        """Return whether there are four dimensions, nothing is empty, and the last stride is 1.

        Query, key and value must have equally many heads, unless grouped ones are allowed.
        """
        for tensor in self.tensors:
            if tensor.dim() != 4 or tensor.shape[2] == 0 or tensor.stride(-1) != 1:
                return False
        batches = {tensor.shape[0] for tensor in self.tensors}
        heads = {tensor.shape[1] for tensor in self.tensors}
        may_differ = allow_grouped and self.grouped
        return len(batches) == 1 and (len(heads) == 1 or may_differ)


def can_use_flash(call: AttentionCall, gpu: Gpu) -> bool:
    """Return whether PyTorch may use flash attention for a call.

    A port of `can_use_flash_attention` in ATen/native/transformers/cuda/sdp_utils.cpp.
    """
    if not torch.backends.cuda.flash_sdp_enabled() or call.mask is not None:
        return False
    if not call.is_half or not call.is_dense(allow_grouped=True):
        return False
    if not (8, 0) <= gpu.capability <= (12, 1):
        return False
    widths = {tensor.shape[-1] for tensor in call.tensors}
    width = max(widths)
    if len(widths) > 1 or width > 256:
        return False
    # the backward pass of wide heads needs more shared memory than these chips have
    is_small_chip = (8, 6) <= gpu.capability <= (8, 9) or gpu.capability >= (12, 0)
    is_too_wide = 192 < width <= 224 or (width > 224 and call.dropout > 0)
    if call.needs_gradients and is_small_chip and is_too_wide:
        return False
    return not call.causal or call.query.shape[2] == call.key.shape[2]


def can_use_efficient(call: AttentionCall, gpu: Gpu) -> bool:
    """Return whether PyTorch may use the memory-efficient kernel for a call.

    A port of `can_use_mem_efficient_attention` in the same file, with `minimum_gemm_alignment`.
    """
    if not torch.backends.cuda.mem_efficient_sdp_enabled():
        return False
    if not call.is_dense(gpu.efficient_takes_grouped_heads):
        return False
    alignment = 1
    if gpu.capability >= (8, 0) or (gpu.capability >= (7, 0) and call.is_half):
        alignment = 8 if call.is_half else 4
    query, key, value = (tensor.shape[-1] for tensor in call.tensors)
    if query != key or query % alignment or value % alignment:
        return False
    if call.query.dtype == torch.bfloat16:
        return gpu.capability >= (8, 0)
    return call.query.dtype in (torch.float16, torch.float32)


def can_use_cudnn(call: AttentionCall, gpu: Gpu) -> bool:
    """Return whether PyTorch may use cuDNN's attention for a call.

    A port of `can_use_cudnn_attention` in the same file. Heads wider than 128 are left to other
    kernels, as before cuDNN 9.22.
    """
    if not torch.backends.cuda.cudnn_sdp_enabled() or gpu.capability < (8, 0):
        return False
    if not call.is_half or not call.is_dense(allow_grouped=True):
        return False
    if (call.dropout * 16) % 1:  # a probability that is no multiple of a sixteenth
        return False
    for tensor in call.tensors:
        width = tensor.shape[-1]
        if width > 128 or width % 8:
            return False
    drops_of_one_query = call.dropout > 0 and call.query.shape[2] == 1
    return call.key.shape[2] != 1 and not drops_of_one_query


def choose_kernel(call: AttentionCall, gpu: Gpu) -> str:
    """Return flash, efficient, cudnn or math.

    Raises RuntimeError, as PyTorch does, if no kernel is allowed.
    """
    if gpu.prefers_cudnn_attention and can_use_cudnn(call, gpu):
        return "cudnn"
    if can_use_flash(call, gpu):
        return "flash"
    if can_use_efficient(call, gpu):
        return "efficient"
    if torch.backends.cuda.math_sdp_enabled():
        return "math"
    if can_use_cudnn(call, gpu):
        return "cudnn"
    raise RuntimeError("No available kernel. Aborting execution.")


def attend(
    gpu: Gpu,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Run what a GPU would run for `scaled_dot_product_attention`, with the same arguments."""
    call = AttentionCall(
        query,
        key,
        value,
        mask=attn_mask,
        dropout=dropout_p,
        causal=is_causal,
        grouped=enable_gqa,
    )
    kernel = choose_kernel(call, gpu)
    mask = attn_mask
    if mask is not None and mask.dtype == torch.bool:  # convert_boolean_attn_mask
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(
            mask.logical_not(), float("-inf")
        )
    if kernel == "flash":
        return attend_by_flash(call, scale)
    outputs: tuple[Tensor, ...]
    if kernel == "math":
        outputs = aten._scaled_dot_product_attention_math(
            query, key, value, mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
        )
    elif kernel == "cudnn":
        outputs = aten._scaled_dot_product_cudnn_attention(
            query, key, value, mask, call.needs_gradients, dropout_p, is_causal, False, scale=scale
        )
    else:
        # the kernel's derivative needs equally many heads
        if enable_gqa and key.shape[1] != query.shape[1]:
            key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
            value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
        if mask is not None:  # preprocess_mask
            if mask.shape[-1] % 8:
                mask = pad_last_dim(mask)[..., : mask.shape[-1]]
            mask = mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        outputs = aten._scaled_dot_product_efficient_attention(
            query, key, value, mask, call.needs_gradients, dropout_p, is_causal, scale=scale
        )
    return outputs[0]


def attend_by_flash(call: AttentionCall, scale: float | None) -> Tensor:
    """Run flash attention with heads padded to a multiple of 8."""
    width = call.query.shape[-1]
    tensors = call.tensors
    if width % 8:
        tensors = pad_last_dim(call.query), pad_last_dim(call.key), pad_last_dim(call.value)
    if scale is None:
        scale = width**-0.5  # of the heads before they are padded
    out: Tensor = aten._scaled_dot_product_flash_attention(
        *tensors, call.dropout, call.causal, False, scale=scale
    )[0]
    return out[..., :width] if width % 8 else out


def pad_last_dim(tensor: Tensor) -> Tensor:
    """Return the tensor with its last dimension padded to the next multiple of 8."""
    return F.pad(tensor, (0, 8 - tensor.shape[-1] % 8))
