"""Inverted residuals whose last norm has no activation, as MobileNet's: the next convolution's
outputs have the mean zero.
"""

import torch
from torch import nn


class InvertedResidual(nn.Module):
    def __init__(self, width, expansion=4):
        super().__init__()
        inner = expansion * width
        self.layers = nn.Sequential(
            nn.Conv2d(width, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.Hardswish(),
            nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.Hardswish(),
            nn.Conv2d(inner, width, 1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return x + self.layers(x)


def model():
    stem = [nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    return nn.Sequential(*stem, *[InvertedResidual(16) for _ in range(4)], *head)


def batch(n):
    return torch.randn(n, 3, 32, 32), torch.randint(10, (n,))


def loss(output, target):
    return nn.functional.cross_entropy(output, target)


def optimizer(parameters):
    return torch.optim.RMSprop(parameters, lr=1e-3, momentum=0.9)
