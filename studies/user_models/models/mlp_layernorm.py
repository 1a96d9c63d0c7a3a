"""A plain MLP with layer norms."""

import torch
from torch import nn


def model():
    hidden = [m for _ in range(4) for m in (nn.Linear(128, 128), nn.LayerNorm(128), nn.GELU())]
    return nn.Sequential(nn.Linear(32, 128), *hidden, nn.Linear(128, 10))


def batch(n):
    return torch.randn(n, 32), torch.randint(10, (n,))


def loss(output, target):
    return nn.functional.cross_entropy(output, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)
