"""timm: ConvNeXt, small, with drop path."""

import timm
import torch
import torch.nn.functional as F


def model():
    return timm.create_model("convnext_atto", num_classes=10, drop_path_rate=0.1)


def batch(n):
    return torch.randn(n, 3, 128, 128), torch.randint(10, (n,))


def loss(output, target):
    return F.cross_entropy(output, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)
