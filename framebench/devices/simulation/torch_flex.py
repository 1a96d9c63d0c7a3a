"""Let `flex_attention` take memory as its kernels do, which Triton writes on a GPU.

The kernels keep the output and one logarithm per query; the backward pass needs one sum per query
(lowerings in torch/_inductor/kernel/flex/flex_attention.py). Masks and scores are computed within
the kernels, and have no tensors. Gradients of tensors that `score_mod` reads are left out.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import _permute_strides
from torch.library import custom_op
from torch.nn.attention import flex_attention as flex

from framebench.devices.simulation.torch_device import Replacement

EAGER = (
    "flex_attention outside of torch.compile makes the matrix of all scores and is not simulated: "
    "torch.compile(flex_attention) is, and scaled_dot_product_attention"
)


def refuse_eager(query: Tensor, *_: Tensor) -> None:
    """Raise NotImplementedError outside of a compiled function."""
    if not torch.compiler.is_dynamo_compiling():
        raise NotImplementedError(EAGER)


def run_kernel(*_: Tensor) -> NoReturn:
    """Raise NotImplementedError: fake tensors never reach a kernel."""
    raise NotImplementedError


@custom_op("framebench::flex_attention", mutates_args=())
def run_forward(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Take the place of the kernel of the forward pass."""
    run_kernel(query)


@custom_op("framebench::flex_attention_backward", mutates_args=())
def run_backward(
    query: Tensor, key: Tensor, value: Tensor, logsumexp: Tensor, gradient: Tensor, delta: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Take the place of the kernel of the backward pass."""
    run_kernel(query)


@run_forward.register_fake
def make_outputs(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return the output, in the order of the query's dimensions, and a logarithm per query."""
    out = query.new_empty((*query.shape[:-1], value.shape[-1]))
    logsumexp = query.new_empty(query.shape[:-1], dtype=torch.float32)
    return _permute_strides(out, query.stride()), logsumexp


@run_backward.register_fake
def make_gradients(
    query: Tensor, key: Tensor, value: Tensor, logsumexp: Tensor, gradient: Tensor, delta: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value."""
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def save_tensors(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    """Save what the backward pass needs."""
    ctx.save_for_backward(*inputs, *output)


def compute_gradients(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value."""
    query, key, value, out, logsumexp = ctx.saved_tensors
    delta = (out * gradient).sum(-1).to(torch.float32)
    gradients: tuple[Tensor, Tensor, Tensor] = run_backward(
        query, key, value, logsumexp, gradient, delta
    )
    return gradients


run_forward.register_autograd(compute_gradients, setup_context=save_tensors)


def attend(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Take the place of the operator whose kernels Inductor writes."""
    out, logsumexp = run_forward(query, key, value)
    return out, logsumexp, query.new_empty(0)


REPLACEMENTS: list[Replacement] = [
    (flex, "_validate_device", refuse_eager),
    (flex, "flex_attention_hop", attend),
]
