"""A loop that adds losses to a tensor, and with them their graphs."""

import torch

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = torch.tensor(0.0)
for _ in range(1000):
    loss = model(torch.randn(8, 64)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss
