"""Factors of users and items in large tables, whose gradients are sparse; their moments are not."""

import torch
import torch.nn.functional as F
from torch import nn

USERS, ITEMS, WIDTH = 150_000, 30_000, 32


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, WIDTH, sparse=True)
        self.item = nn.Embedding(ITEMS, WIDTH, sparse=True)

    def forward(self, pairs):
        return (self.user(pairs[:, 0]) * self.item(pairs[:, 1])).sum(1)


def model():
    return Factors()


def batch(n):
    return torch.stack([torch.randint(USERS, (n,)), torch.randint(ITEMS, (n,))], 1), torch.rand(n)


def loss(output, target):
    return F.mse_loss(output, target)


def optimizer(parameters):
    return torch.optim.SparseAdam(list(parameters), lr=0.01)
