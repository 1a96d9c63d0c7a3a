"""A residual network for small images, written as torchvision writes them:

`framebench try examples/cnn.py`.

Its norms are over groups: with batch norm the samples of a batch depend on each other, and
micro-batches are other mathematics.
"""

import torch
import torch.nn.functional as F
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1, self.norm1 = (
            nn.Conv2d(cin, cout, 3, stride, padding=1, bias=False),
            nn.GroupNorm(8, cout),
        )
        self.conv2, self.norm2 = (
            nn.Conv2d(cout, cout, 3, padding=1, bias=False),
            nn.GroupNorm(8, cout),
        )
        self.downsample = (
            nn.Conv2d(cin, cout, 1, stride, bias=False) if stride > 1 else nn.Identity()
        )

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.downsample(x))


def model():
    layers = [
        BasicBlock(cin, cout, stride)
        for cin, cout, stride in [(32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2)]
    ]
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.GroupNorm(8, 32), nn.ReLU(), *layers, *head
    )


def batch(n):
    return torch.randn(n, 3, 32, 32), torch.randint(10, (n,))


def loss(output, target):
    return F.cross_entropy(output, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)
