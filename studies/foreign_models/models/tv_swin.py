"""torchvision: Swin-T of half its depth, with its stochastic depth."""

import torch
import torch.nn.functional as F
from torchvision import models


def model():
    depths, heads = [2, 2, 4], [3, 6, 12]
    return models.SwinTransformer(
        [4, 4], 48, depths, heads, [7, 7], stochastic_depth_prob=0.2, num_classes=10
    )


def batch(n):
    return torch.randn(n, 3, 112, 112), torch.randint(10, (n,))


def loss(output, target):
    return F.cross_entropy(output, target)
