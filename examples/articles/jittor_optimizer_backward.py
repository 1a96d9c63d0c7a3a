"""Article B, accumulation as Jittor has it, against the whole batch at once.

`optimizer.backward(loss)` adds up, `optimizer.step()` takes the sum. A step of SGD shows the
gradient of each weight: without batch norm, and with it.
"""

import json

import jittor as jt
import numpy as np
from jittor import nn

PARTS = 4
INPUTS = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)


def make_model(with_norm):
    """Return two layers, perhaps with batch norm between them."""
    jt.set_global_seed(0)
    norm = nn.BatchNorm1d(8) if with_norm else nn.Identity()
    return nn.Sequential(nn.Linear(8, 8), norm, nn.ReLU(), nn.Linear(8, 1))


def compute_gradients(with_norm, parts):
    """Return all gradients as one array, by so many parts of the batch."""
    model = make_model(with_norm)
    weights = [weight for weight in model.parameters() if not weight.is_stop_grad()]
    before = [weight.numpy().copy() for weight in weights]
    optimizer = jt.optim.SGD(weights, lr=1.0)
    for part in np.split(INPUTS, parts):
        optimizer.backward(model(jt.array(part)).sqr().mean() / parts)
    optimizer.step()
    after = [weight.numpy() for weight in weights]
    changes = [(old - new).ravel() for old, new in zip(before, after)]
    return np.concatenate(changes)


def compare(with_norm):
    """Return the relative error of the accumulated gradient."""
    whole = compute_gradients(with_norm, 1)
    accumulated = compute_gradients(with_norm, PARTS)
    return float(np.abs(accumulated - whole).max() / np.abs(whole).max())


found = {"relative_error": compare(False), "relative_error_with_norm": compare(True)}
print(json.dumps(found))
