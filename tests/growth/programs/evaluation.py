"""A loop that only evaluates, and keeps every output with its graph."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
outputs = []
for _ in range(1000):
    outputs.append(model(torch.randn(8, 64)))
