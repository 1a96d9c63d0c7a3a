"""Floating-point operations of a model, counted from its specification: what a step must do, whoever does it.

A product of (m, k) and (k, n) counts 2 m k n; a convolution 2 per weight and place of its output. Norms, activations,
pooling, softmax and the optimizer are left out, as is usual; so is what checkpointing does twice. Backward counts twice the
forward: a product each for the gradients of input and weight (the first layer's input needs none; it is counted all the
same). These are the conventions of model FLOPs utilisation (PaLM, Chowdhery et al. 2022, appendix B), by which a causal mask
halves nothing.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from framebench.analysis.lower_bound import layers
from framebench.models.layer import Layer
from framebench.models.spec import Param

if TYPE_CHECKING:
    from framebench.suite.case import Case

BACKWARD = 2  # times the forward


def _of_layer(layer: Layer, weight: Param | None) -> int:
    """Of one sample: each element of the output is a sum over what the weight has beside its output channels.

    A convolution's or linear layer's weight is (out, in, kernel...); a transposed one's, stride as its kernel, (in, out,
    kernel...), where each output element sees the kernel at one place.
    """
    if weight is None or len(weight.shape) < 2:
        return layer.flops
    return layer.flops + 2 * layer.output * (weight.shape[0] if layer.transposed else prod(weight.shape[1:]))


def forward(case: Case) -> int:
    """Of the whole batch, forward."""
    weights = {p.name.removesuffix(".weight"): p for p in case.spec.params(case.config) if p.name.endswith(".weight")}
    return case.batch * sum(_of_layer(layer, weights.get(layer.name)) for layer in layers(case))


def step_flops(case: Case) -> int | None:
    """Of one step in `train` or `eval`; None where a step is something else, or where the workload declares no layers, and of a
    case that this version does not have."""
    if not case.known or case.scenario not in ("train", "eval") or case.plan.mathematics or not case.spec.layers:
        return None
    return forward(case) * (1 + BACKWARD * case.stage.trains)
