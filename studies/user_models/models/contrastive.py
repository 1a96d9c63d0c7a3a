"""Two views of each sample, and all others of the batch as negatives."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16)
        )

    def forward(self, x):
        return nn.functional.normalize(self.body(x), dim=-1)  # (batch, 2, 16)


def model():
    return Encoder()


def batch(n):
    sample = torch.randn(n, 1, 32)
    return sample + 0.3 * torch.randn(n, 2, 32), torch.arange(n)


def loss(output, target):
    one, other = output.unbind(1)
    return nn.functional.cross_entropy(one @ other.T / 0.2, torch.arange(len(one)))


def optimizer(parameters):
    return torch.optim.Adam(parameters, lr=1e-3)
