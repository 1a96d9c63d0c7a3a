"""Article B, accumulation in Jittor: each micro-batch calls `loss.backward()`, the optimizer steps
after the last.
"""

import json

import jittor as jt
from jittor import nn

model = nn.Linear(8, 1)
criterion = nn.MSELoss()
optimizer = jt.optim.SGD(model.parameters(), lr=0.1)
train_loader = [(jt.rand(4, 8), jt.rand(4, 1)) for _ in range(4)]
steps = 0
accum_steps = 4
optimizer.zero_grad()
for i, (data, target) in enumerate(train_loader):
    output = model(data)
    loss = criterion(output, target)
    loss = loss / accum_steps
    loss.backward()
    if (i + 1) % accum_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
print(json.dumps({"steps": steps}))
