"""Print how far parts of a step are off in float64, each against NumPy, and what is refused."""

import json
import math

import jittor as jt
import numpy as np
from jittor import nn

from framebench.adapters.jittor import float64

NUMBERS = np.random.default_rng(0).uniform(0.1, 0.9, (3, 5))


def differentiate(function, x):
    return jt.grad(function(x).sum(), x)


def assign_row(x):
    x = x.copy() if isinstance(x, np.ndarray) else x.clone()
    x[0] = 0.1
    return x


def assign_all(x):
    x = x.clone()
    x.assign(NUMBERS**2)
    return x


# what is computed of the numbers by Jittor, as by NumPy
ALIKE = {
    "number on the right": lambda lib, x: x * 0.1,
    "number on the left": lambda lib, x: 0.1 - x,
    "number of NumPy's": lambda lib, x: x + np.float64(0.1),
    "number in a function": lambda lib, x: lib.maximum(x, 0.3),
    "power": lambda lib, x: x**0.3,
    "assignment": lambda lib, x: assign_row(x),
    "array": lambda lib, x: x * lib.array(NUMBERS),
    "list": lambda lib, x: x * lib.array([0.1, 0.2, 0.3, 0.4, 0.5]),
    "full": lambda lib, x: x * lib.full((3, 5), 0.1),
    "mean": lambda lib, x: x.mean(1, keepdims=True),
}
# what Jittor computes of them, and what it should be
PARTS = {
    "number in a method": (lambda x: x.maximum(0.3), np.maximum(NUMBERS, 0.3)),
    "function of a number": (lambda x: x / jt.sqrt(0.1), NUMBERS / math.sqrt(0.1)),
    "choice": (lambda x: jt.ternary(x > 0.5, x, 0.1), np.where(NUMBERS > 0.5, NUMBERS, 0.1)),
    "assignment of all": (assign_all, NUMBERS**2),
    "integers": (lambda x: (x > 0.5).int32() * 0.1, (NUMBERS > 0.5) * 0.1),
    "booleans": (lambda x: (x > 0.5).float32().mean(), (NUMBERS > 0.5).mean()),
    "derivative of mean": (lambda x: differentiate(jt.mean, x), np.full((3, 5), 1 / 15)),
    "derivative of reduce": (
        lambda x: differentiate(lambda y: y.reduce("mean", [0]), x),
        np.full((3, 5), 1 / 3),
    ),
    "derivative of erf": (
        lambda x: differentiate(jt.erf, x),
        2 / math.sqrt(math.pi) * np.exp(-(NUMBERS**2)),
    ),
}
REFUSED = {
    "a cast": lambda x: x.float32() * 2,
    "half precision": lambda x: x.float16() * 2,
    "erfinv": lambda x: jt.erfinv(x),
    "pooling": lambda x: nn.AvgPool2d(2, ceil_mode=True)(x.reshape(1, 1, 3, 5)),
    "before a wait": lambda x: (x.float32() * 2).sync(),
}


def measure_errors():
    errors = {}
    for name, compute in ALIKE.items():
        right = compute(np, NUMBERS)
        errors[name] = np.abs(compute(jt, jt.array(NUMBERS)).numpy() - right).max()
    for name, (compute, right) in PARTS.items():
        errors[name] = np.abs(compute(jt.array(NUMBERS)).numpy() - right).max()
    return {name: float(error) for name, error in errors.items()}


def explain_refusal(step):
    jt.sync_all(True)
    try:
        with float64.refuse_float32():
            kept = step(jt.array(NUMBERS))  # as an adapter keeps its output
    except float64.NoFloat64 as error:
        return str(error)
    return f"computed {kept}"


before = measure_errors()
float64.switch_on()
wide = measure_errors()
refused = {name: explain_refusal(step) for name, step in REFUSED.items()}
jt.sync_all(True)
with float64.refuse_float32():
    nn.Dropout(0.5, is_train=True)(jt.array(NUMBERS)).sync()  # not refused
float64.switch_off()
print(
    json.dumps({"before": before, "float64": wide, "after": measure_errors(), "refused": refused})
)
