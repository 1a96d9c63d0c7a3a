"""Tables of users and items, whose gradients are sparse."""

import torch
from torch import nn


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = (
            nn.Embedding(60_000, 32, sparse=True),
            nn.Embedding(20_000, 32, sparse=True),
        )

    def forward(self, pairs):
        return (self.user(pairs[:, 0]) * self.item(pairs[:, 1])).sum(-1)


def model():
    return Factors()


def batch(n):
    return torch.randint(20_000, (n, 2)), torch.rand(n)


def loss(output, target):
    return nn.functional.mse_loss(output, target)


def optimizer(parameters):
    return torch.optim.SGD(parameters, lr=0.1)
