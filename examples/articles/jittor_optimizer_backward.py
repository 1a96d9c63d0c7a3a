"""The same as Jittor has it:

`optimizer.backward(loss)` adds up, `optimizer.step()` takes the sum.
"""

import json

import jittor as jt
import numpy as np
from jittor import nn

model = nn.Linear(8, 1)
before = model.weight.numpy().copy()
optimizer = jt.optim.SGD(model.parameters(), lr=0.1)
inputs = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
for x in np.split(inputs, 4):
    optimizer.backward(model(jt.array(x)).mean() / 4)
optimizer.step()
expected = before - 0.1 * inputs.mean(0)  # the gradient of a mean of sums is the mean input
print(
    json.dumps(
        {
            "relative_error": float(
                np.abs(model.weight.numpy() - expected).max() / np.abs(expected).max()
            )
        }
    )
)
