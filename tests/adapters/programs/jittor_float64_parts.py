"""Print how far parts of a step are off in float64, each against NumPy, and what is refused."""

import json
import math

import jittor as jt
import numpy as np
from jittor import nn

from framebench.adapters.jittor import float64

NUMBERS = np.random.default_rng(0).uniform(0.1, 0.9, (3, 5))
BOOLEANS = NUMBERS > 0.5
EXPONENTIALS = np.exp(NUMBERS)
FIRST_ROW = np.array([[True], [False], [False]])


def derivative(function, x):
    return jt.grad(function(x).sum(), x)


def erf_slope(x):
    return 2 / math.sqrt(math.pi) * np.exp(-(x**2))


def assigned(x):
    x[0] = 0.1
    return x


def replaced(x):
    x.assign(NUMBERS**2)
    return x


def mean_of_rows(x):
    return x.reduce("mean", [0])


# name -> what Jittor computes of x, and what it should be
PARTS = {
    "number on the right": (lambda x: x * 0.1, NUMBERS * 0.1),
    "number on the left": (lambda x: 0.1 - x, 0.1 - NUMBERS),
    "number of NumPy's": (lambda x: x + np.float64(0.1), NUMBERS + 0.1),
    "number in a function": (lambda x: jt.maximum(x, 0.3), np.maximum(NUMBERS, 0.3)),
    "number in a method": (lambda x: x.maximum(0.3), np.maximum(NUMBERS, 0.3)),
    "function of a number": (lambda x: x / jt.sqrt(0.1), NUMBERS / math.sqrt(0.1)),
    "power": (lambda x: x**0.3, NUMBERS**0.3),
    "choice": (lambda x: jt.ternary(x > 0.5, x, 0.1), np.where(BOOLEANS, NUMBERS, 0.1)),
    "assignment": (lambda x: assigned(x.clone()), np.where(FIRST_ROW, 0.1, NUMBERS)),
    "assignment of all": (lambda x: replaced(x.clone()), NUMBERS**2),
    "integers": (lambda x: (x > 0.5).int32() * 0.1, BOOLEANS * 0.1),
    "booleans": (lambda x: (x > 0.5).float32().mean(), BOOLEANS.mean()),
    "array": (lambda x: x * jt.array(NUMBERS), NUMBERS**2),
    "list": (lambda x: x * jt.array([0.1, 0.2, 0.3, 0.4, 0.5]), NUMBERS * np.linspace(0.1, 0.5, 5)),
    "full": (lambda x: x * jt.full((3, 5), 0.1), NUMBERS * 0.1),
    "full_like": (lambda x: jt.full_like(x, 0.1), np.full((3, 5), 0.1)),
    "softmax": (lambda x: nn.softmax(x, 1), EXPONENTIALS / EXPONENTIALS.sum(1, keepdims=True)),
    "mean": (lambda x: x.mean(1, keepdims=True), NUMBERS.mean(1, keepdims=True)),
    "derivative of mean": (lambda x: derivative(jt.mean, x), np.full((3, 5), 1 / 15)),
    "derivative of reduce": (lambda x: derivative(mean_of_rows, x), np.full((3, 5), 1 / 3)),
    "derivative of erf": (lambda x: derivative(jt.erf, x), erf_slope(NUMBERS)),
    "derivative of sqrt": (lambda x: derivative(jt.sqrt, x), 0.5 / np.sqrt(NUMBERS)),
}
REFUSED = {
    "a cast": lambda x: x.float32() * 2,
    "half precision": lambda x: x.float16() * 2,
    "erfinv": lambda x: jt.erfinv(x),
    "pooling": lambda x: nn.AvgPool2d(2, ceil_mode=True)(x.reshape(1, 1, 3, 5)),
    "before a wait": lambda x: (x.float32() * 2).sync(),
}


def refused(step):
    jt.sync_all(True)
    try:
        with float64.refuse_float32():
            kept = step(jt.array(NUMBERS))  # as an adapter keeps its output
    except float64.NoFloat64 as error:
        return str(error)
    return f"computed {kept}"


def errors():
    answers = {}
    for name, (compute, right) in PARTS.items():
        computed = compute(jt.array(NUMBERS))
        assert not float64_on or str(computed.dtype) == "float64", name
        answers[name] = float(np.abs(computed.numpy() - right).max())
    return answers


float64_on = False
before = errors()
float64.switch_on()
float64_on = True
wide, messages = errors(), {name: refused(step) for name, step in REFUSED.items()}
jt.sync_all(True)
with float64.refuse_float32():
    nn.Dropout(0.5, is_train=True)(jt.array(NUMBERS)).sync()  # not refused
float64.switch_off()
float64_on = False
print(json.dumps({"before": before, "float64": wide, "after": errors(), "refused": messages}))
