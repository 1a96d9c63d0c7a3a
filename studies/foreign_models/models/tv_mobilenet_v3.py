"""torchvision: MobileNetV3, with its dropout."""

import torch
import torch.nn.functional as F
from torchvision import models


def model():
    return models.mobilenet_v3_large(num_classes=10)


def batch(n):
    return torch.randn(n, 3, 96, 96), torch.randint(10, (n,))


def loss(output, target):
    return F.cross_entropy(output, target)
