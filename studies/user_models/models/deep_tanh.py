"""A deep autoencoder of tanh layers, without norms."""

import torch
from torch import nn

WIDTHS = (96, 64, 48, 32, 16, 32, 48, 64)


def model():
    layers = [m for a, b in zip(WIDTHS, WIDTHS[1:]) for m in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(WIDTHS[-1], 96))


def batch(n):
    x = torch.randn(n, 8) @ torch.randn(8, 96)
    return x, x


def loss(output, target):
    return nn.functional.mse_loss(output, target)


def optimizer(parameters):
    return torch.optim.RMSprop(parameters, lr=1e-3)
