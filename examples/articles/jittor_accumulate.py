"""Article B, accumulation in Jittor: each micro-batch calls `loss.backward()`, the optimizer steps
after the last.
"""

import json

import jittor as jt
from jittor import nn

model = nn.Linear(8, 1)
optimizer = jt.optim.SGD(model.parameters(), lr=0.1)
micro_batches = [jt.rand(4, 8) for _ in range(4)]
for x in micro_batches:
    loss = model(x).mean() / len(micro_batches)
    loss.backward()
optimizer.step()
print(json.dumps({"steps": 1}))
