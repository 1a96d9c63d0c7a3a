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


def compute_alike(library, x):
    """Return what Jittor and NumPy compute of the numbers by the same words."""
    return {
        "number on the right": x * 0.1,
        "number on the left": 0.1 - x,
        "number of NumPy's": x + np.float64(0.1),
        "number in a function": library.maximum(x, 0.3),
        "power": x**0.3,
        "assignment": assign_row(x),
        "array": x * library.array(NUMBERS),
        "list": x * library.array([0.1, 0.2, 0.3, 0.4, 0.5]),
        "full": x * library.full((3, 5), 0.1),
        "mean": x.mean(1, keepdims=True),
    }


def average_columns(x):
    return x.reduce("mean", [0])


def compute_in_jittor(x):
    """Return what Jittor computes by words of its own."""
    return {
        "number in a method": x.maximum(0.3),
        "function of a number": x / jt.sqrt(0.1),
        "choice": jt.ternary(x > 0.5, x, 0.1),
        "assignment of all": assign_all(x),
        "integers": (x > 0.5).int32() * 0.1,
        "booleans": (x > 0.5).float32().mean(),
        "derivative of mean": differentiate(jt.mean, x),
        "derivative of reduce": differentiate(average_columns, x),
        "derivative of erf": differentiate(jt.erf, x),
    }


RIGHT = {
    "number in a method": np.maximum(NUMBERS, 0.3),
    "function of a number": NUMBERS / math.sqrt(0.1),
    "choice": np.where(NUMBERS > 0.5, NUMBERS, 0.1),
    "assignment of all": NUMBERS**2,
    "integers": (NUMBERS > 0.5) * 0.1,
    "booleans": (NUMBERS > 0.5).mean(),
    "derivative of mean": np.full((3, 5), 1 / 15),
    "derivative of reduce": np.full((3, 5), 1 / 3),
    "derivative of erf": 2 / math.sqrt(math.pi) * np.exp(-(NUMBERS**2)),
}


def measure_errors():
    x = jt.array(NUMBERS)
    computed = compute_alike(jt, x) | compute_in_jittor(x)
    right = compute_alike(np, NUMBERS) | RIGHT
    errors = {}
    for name, value in computed.items():
        errors[name] = float(np.abs(value.numpy() - right[name]).max())
    return errors


def double_in_float32(x):
    return x.float32() * 2


def double_in_float16(x):
    return x.float16() * 2


def invert_erf(x):
    return jt.erfinv(x)  # looked up when it runs: switched on, float64 replaces functions


def pool(x):
    return nn.AvgPool2d(2, ceil_mode=True)(x.reshape(1, 1, 3, 5))


def double_and_wait(x):
    return double_in_float32(x).sync()


REFUSED = {
    "a cast": double_in_float32,
    "half precision": double_in_float16,
    "erfinv": invert_erf,
    "pooling": pool,
    "before a wait": double_and_wait,
}


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
    (jt.init.eye((3, 5)) * jt.array(NUMBERS)).sync()
float64.switch_off()
print(
    json.dumps({"before": before, "float64": wide, "after": measure_errors(), "refused": refused})
)
