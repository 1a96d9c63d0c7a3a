"""Which kernel `scaled_dot_product_attention` runs on a card, and the operator that has its shapes and its derivative.

The order and the conditions are those of `select_sdp_backend` in ATen/native/transformers/cuda/sdp_utils.cpp; what is done
around the kernel is that of `scaled_dot_product_attention` in ATen/native/transformers/attention.cpp. Flash, efficient and
cuDNN save their output and one logarithm per query; math saves the matrix of probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from framebench.devices.simulation.torch_card import Card

aten = torch.ops.aten
HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Call:
    """One call, as the conditions look at it (`sdp_params`)."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    dropout: float
    causal: bool
    grouped: bool

    @property
    def dtype(self) -> torch.dtype:
        return self.query.dtype

    @property
    def heads(self) -> tuple[int, int, int]:
        return self.query.shape[-1], self.key.shape[-1], self.value.shape[-1]

    @property
    def needs_gradients(self) -> bool:
        return torch.is_grad_enabled() and any(t.requires_grad for t in (self.query, self.key, self.value))

    def dense(self, grouped_too: bool) -> bool:
        """Four dimensions, nothing empty, last stride 1, as many heads everywhere unless grouped."""
        tensors = (self.query, self.key, self.value)
        if any(t.dim() != 4 or t.shape[2] == 0 or t.stride(-1) != 1 for t in tensors):
            return False
        same = len({t.shape[1] for t in tensors}) == 1
        return len({t.shape[0] for t in tensors}) == 1 and (same or (grouped_too and self.grouped))


def flash(call: Call, card: Card) -> bool:
    """`can_use_flash_attention`."""
    width = call.query.shape[-1]
    if not torch.backends.cuda.flash_sdp_enabled() or call.mask is not None or not call.dense(grouped_too=True):
        return False
    if len(set(call.heads)) != 1 or width > 256 or not (8, 0) <= card.capability <= (12, 1):
        return False
    small_chip = (8, 6) <= card.capability <= (8, 9) or card.capability >= (12, 0)
    if call.needs_gradients and small_chip and width > 192 and (call.dropout > 0 or width <= 224):
        return False
    return call.dtype in HALF and not (call.causal and call.query.shape[2] != call.key.shape[2])


def efficient(call: Call, card: Card) -> bool:
    """`can_use_mem_efficient_attention`."""
    if not torch.backends.cuda.mem_efficient_sdp_enabled() or not call.dense(card.grouped_heads_everywhere):
        return False
    half = call.dtype in HALF
    alignment = 4 if card.capability >= (8, 0) else 1  # minimum_gemm_alignment
    if card.capability >= (8, 0) or (card.capability >= (7, 0) and half):
        alignment = max(alignment, 8 if half else 4)
    query, key, value = call.heads
    if query != key or query % alignment or value % alignment:
        return False
    return call.dtype in (torch.float16, torch.float32) or (call.dtype == torch.bfloat16 and card.capability >= (8, 0))


def cudnn(call: Call, card: Card) -> bool:
    """`can_use_cudnn_attention`; heads wider than 128 are left to others, as before cuDNN 9.22."""
    if not torch.backends.cuda.cudnn_sdp_enabled() or not call.dense(grouped_too=True) or card.capability < (8, 0):
        return False
    if call.dtype not in HALF or (call.dropout * 16) % 1 or max(call.heads) > 128 or any(w % 8 for w in call.heads):
        return False
    return call.key.shape[2] != 1 and not (call.dropout and call.query.shape[2] == 1)


CONDITIONS = {"flash": flash, "efficient": efficient, "cudnn": cudnn}


def kernel(call: Call, card: Card) -> str:
    """flash, efficient, cudnn or math."""
    order = ("cudnn", "flash", "efficient") if card.prefers_cudnn_attention else ("flash", "efficient")
    for name in order:
        if CONDITIONS[name](call, card):
            return name
    if torch.backends.cuda.math_sdp_enabled():
        return "math"
    if cudnn(call, card):
        return "cudnn"
    raise RuntimeError("No available kernel. Aborting execution.")


def attend(card: Card, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
           is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False) -> Tensor:  # fmt: skip
    """What a card would run for `scaled_dot_product_attention`."""
    call = Call(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    chosen = kernel(call, card)
    mask = attn_mask
    if mask is not None and mask.dtype == torch.bool:  # convert_boolean_attn_mask
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), float("-inf"))
    if chosen == "flash":
        return _flash(call, scale)
    options: dict[str, Any] = {"scale": scale}
    if chosen == "math":
        return aten._scaled_dot_product_attention_math(  # type: ignore[no-any-return]
            query, key, value, mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
        )[0]
    if chosen == "cudnn":
        return aten._scaled_dot_product_cudnn_attention(  # type: ignore[no-any-return]
            query, key, value, mask, call.needs_gradients, dropout_p, is_causal, False, **options
        )[0]
    if enable_gqa and key.shape[1] != query.shape[1]:  # the kernel's derivative wants as many heads everywhere
        key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    if mask is not None:  # preprocess_mask
        if mask.shape[-1] % 8:
            mask = F.pad(mask, (0, 8 - mask.shape[-1] % 8))[..., : mask.shape[-1]]
        mask = mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return aten._scaled_dot_product_efficient_attention(  # type: ignore[no-any-return]
        query, key, value, mask, call.needs_gradients, dropout_p, is_causal, **options
    )[0]


def _flash(call: Call, scale: float | None) -> Tensor:
    """Heads are padded to a multiple of 8 (pad_last_dim)."""
    width = call.query.shape[-1]
    query, key, value = (F.pad(t, (0, 8 - width % 8)) if width % 8 else t for t in (call.query, call.key, call.value))
    scale = width**-0.5 if scale is None else scale
    out: Tensor = aten._scaled_dot_product_flash_attention(query, key, value, call.dropout, call.causal, False, scale=scale)[0]
    return out[..., :width] if width % 8 else out
