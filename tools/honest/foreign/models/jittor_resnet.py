"""Jittor's own ResNet-18."""

import jittor as jt
from jittor import models, nn


def model():
    return models.resnet18(num_classes=10)


def batch(n):
    return jt.randn(n, 3, 64, 64), jt.randint(0, 10, (n,))


def loss(output, target):
    return nn.cross_entropy_loss(output, target)
