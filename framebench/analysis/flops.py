"""Count the floating-point operations of a step from the specification of the model.

A matmul of (m, k) and (k, n) counts 2 m k n, and a convolution 2 per weight and place of its
output. Norms, activations, pooling, softmax and the optimizer are left out, as is usual. So is what
checkpointing computes a second time. Backward counts twice the forward: a matmul each for the
gradients of input and weight (the first layer's input needs no gradient, but is counted too). These
are the conventions of model FLOPs utilisation (PaLM, Chowdhery et al. 2022, appendix B), by which a
causal mask halves nothing.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from framebench.analysis.lower_bound import list_layers
from framebench.models.layer import Layer
from framebench.models.spec import Param

if TYPE_CHECKING:
    from framebench.suite.case import Case

BACKWARD = 2  # times the forward


def count_layer_flops(layer: Layer, weight: Param | None) -> int:
    """Return the operations of a layer's forward pass for one sample.

    Each element of the output is a sum over the weight's input channels and kernel. The weight of a
    convolution or linear layer is (out, in, kernel...). That of a transposed convolution, whose
    stride is its kernel, is (in, out, kernel...): an output element sees the kernel at one place.
    """
    if weight is None or len(weight.shape) < 2:
        return layer.flops
    terms = weight.shape[0] if layer.transposed else prod(weight.shape[1:])
    return layer.flops + 2 * layer.output * terms


def count_forward_flops(case: Case) -> int:
    """Return the operations of a forward pass of the whole batch."""
    # a layer has the name of its weight
    weights = {}
    for param in case.workload_spec.params(case.config):
        if param.name.endswith(".weight"):
            weights[param.name.removesuffix(".weight")] = param
    return case.batch * sum(
        count_layer_flops(layer, weights.get(layer.name)) for layer in list_layers(case)
    )


def count_step_flops(case: Case) -> int | None:
    """Return the operations of one step in `train` or `eval`.

    Returns None in other scenarios, if the strategy computes another scenario's mathematics, if the
    workload declares no layers, and for a case that this version does not have.
    """
    if not case.is_known or not case.workload_spec.layers:
        return None
    if case.scenario not in ("train", "eval") or case.strategy_spec.mathematics:
        return None
    passes = 1
    if case.scenario_spec.trains:
        passes += BACKWARD
    return count_forward_flops(case) * passes
