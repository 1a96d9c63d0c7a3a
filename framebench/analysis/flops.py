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

from framebench.analysis.lower_bound import Kept, layers
from framebench.models.spec import NAMES, Param

if TYPE_CHECKING:
    from framebench.suite.case import Case

BACKWARD = 2  # times the forward


def of_layer(layer: Kept, weight: Param | None, output: int) -> int:
    """Of one sample: `output` elements, each a sum over what the weight has beside its output channels.

    A convolution's or linear layer's weight is (out, in, kernel...); a transposed one's, stride as its kernel, (in, out,
    kernel...), where each output element sees the kernel at one place.
    """
    if weight is None or len(weight.shape) < 2 or not output:
        return 0
    terms = weight.shape[0] if ".upsample" in layer.name else prod(weight.shape[1:])
    return 2 * output * terms


def forward(case: Case) -> int:
    """Of the whole batch, forward."""
    weights = {p.name.removesuffix(".weight"): p for p in case.spec.params(case.config) if p.name.endswith(".weight")}
    found = layers(case)
    elements = {k.name: k.elements for k in found}
    total = 0
    for layer in found:
        output = layer.output
        if layer.name.endswith("downsample.0"):  # its output is what the norm after it keeps
            output = elements[layer.name.replace("downsample.0", "downsample.1")]
        total += of_layer(layer, weights.get(layer.name), output) + attention(case, layer)
    return case.batch * total


def attention(case: Case, layer: Kept) -> int:
    """Scores and weighted sum of one layer: 2 x 2 s^2 h for s tokens of width h."""
    return 4 * case.config.length**2 * case.config.width if layer.name.endswith(".attend") else 0


def step_flops(case: Case) -> int | None:
    """Of one step in `train` or `eval`; None where a step is something else."""
    if case.scenario not in ("train", "eval") or case.plan.mathematics or case.workload not in NAMES:
        return None
    return forward(case) * (1 + BACKWARD * case.stage.trains)
