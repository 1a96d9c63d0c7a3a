"""Judge the proofs of JAX's precisions on imitated devices that round or store otherwise."""

import json
from types import SimpleNamespace

from jax import lax

from framebench.adapters.jax import SWITCHES, precision

REQUESTED = {
    "fp32": "(Precision.HIGHEST, Precision.HIGHEST)",
    "tf32": "(Precision.HIGH, Precision.HIGH)",
}


def round_operands(multiply):
    """Return a product as a device with TensorFloat-32 makes it: of 10 bits of mantissa."""

    def rounded(a, b, *options):
        a = lax.reduce_precision(a, 8, 10)
        b = lax.reduce_precision(b, 8, 10)
        return multiply(a, b, *options)

    return rounded


def judge_precision(strategy):
    program = SimpleNamespace(precision="highest", options={})
    run = SimpleNamespace(program=program, recipe=SimpleNamespace())
    evidence = {
        "compiled_operands": {"float32": 4},
        "operands": {"float32": 4},
        "weight_dtypes": {},
        "state_dtypes": {},
        "precision": {REQUESTED[strategy]: 2},
    }
    return SWITCHES[strategy](run).judge(evidence).proven


def judge_precisions(*rounded):
    """Return whether each precision is proven where these operators are rounded."""
    operators = {"dot": lax.dot, "conv": lax.conv}
    for name in rounded:
        operators[name] = round_operands(operators[name])
    precision.lax = SimpleNamespace(**operators)
    return {strategy: judge_precision(strategy) for strategy in REQUESTED}


def judge_amp(compiled, weights="float32", states="float32"):
    run = SimpleNamespace(recipe=SimpleNamespace(model_options={}), is_user_model=False)
    evidence = {
        "compiled_operands": compiled,
        "weight_dtypes": {weights: 3},
        "state_dtypes": {states: 6},
    }
    return SWITCHES["amp_bf16"](run).judge(evidence).proven


answer = {
    "": judge_precisions(),
    "dot": judge_precisions("dot"),
    "conv": judge_precisions("conv"),
    "dot conv": judge_precisions("dot", "conv"),
    "most products in bfloat16": judge_amp({"bfloat16": 8, "float32": 2}),
    "few products in bfloat16": judge_amp({"float32": 8, "bfloat16": 2}),
    "no products": judge_amp({}),
    "weights in bfloat16": judge_amp({"bfloat16": 8}, weights="bfloat16"),
    "states in bfloat16": judge_amp({"bfloat16": 8}, states="bfloat16"),
}
print(json.dumps(answer))
