"""torchvision: LR-ASPP on MobileNetV3, which labels every pixel and returns a dict."""

import torch
import torch.nn.functional as F
from torchvision import models


def model():
    return models.segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=8
    )


def batch(n):
    return torch.randn(n, 3, 96, 96), torch.randint(8, (n, 96, 96))


def loss(output, target):
    return F.cross_entropy(output["out"], target)
