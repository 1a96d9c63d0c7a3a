import json
from types import SimpleNamespace

from jax import lax

from framebench.adapters.jax import SWITCHES, precision


def rounds(multiply):
    return lambda a, b: multiply(lax.reduce_precision(a, 8, 10), lax.reduce_precision(b, 8, 10))


seen = {"compiled_operands": {"float32": 4}, "operands": {"float32": 4}, "weight_dtypes": {}, "state_dtypes": {}}
program = SimpleNamespace(precision="highest", options={})
found = {}
for names in ((), ("dot",), ("conv",), ("dot", "conv")):
    precision.lax = SimpleNamespace(dot=rounds(lax.dot) if "dot" in names else lax.dot, conv=lax.conv)
    if "conv" in names:
        precision.lax.conv = lambda x, w, *rest: rounds(lambda a, b: lax.conv(a, b, *rest))(x, w)
    asked = {"fp32": "(Precision.HIGHEST, Precision.HIGHEST)", "tf32": "(Precision.HIGH, Precision.HIGH)"}
    runs = {name: SimpleNamespace(program=program, recipe=SimpleNamespace()) for name in asked}
    found[" ".join(names)] = [SWITCHES[n](runs[n]).judge(seen | {"precision": {p: 2}}).proven for n, p in asked.items()]


def amp(compiled, weights="float32", states="float32"):
    proof = SWITCHES["amp_bf16"](SimpleNamespace(recipe=SimpleNamespace(model_options={})))
    evidence = {"compiled_operands": compiled, "weight_dtypes": {weights: 3}, "state_dtypes": {states: 6}}
    return proof.judge(evidence).proven


found["amp"] = [amp({"bfloat16": 8, "float32": 2}), amp({"float32": 8, "bfloat16": 2}), amp({})]
found["amp, stored"] = [amp({"bfloat16": 8}, weights="bfloat16"), amp({"bfloat16": 8}, states="bfloat16")]
print(json.dumps(found))
