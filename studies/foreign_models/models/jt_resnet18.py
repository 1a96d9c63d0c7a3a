"""Jittor's own models: ResNet-18."""

import jittor as jt
from jittor import nn
from jittor.models import resnet18


def model():
    return resnet18(num_classes=10)


def batch(n):
    return jt.randn(n, 3, 96, 96), jt.randint(10, shape=(n,))


def loss(output, target):
    return nn.cross_entropy_loss(output, target)


def optimizer(parameters):
    return jt.optim.SGD(parameters, lr=1e-2, momentum=0.9)
