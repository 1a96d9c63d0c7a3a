"""MONAI: UNETR, a transformer over patches of a volume with a decoder of convolutions."""

import torch
from monai.losses import DiceLoss
from monai.networks.nets import UNETR

LOSS = DiceLoss(sigmoid=True)


def model():
    return UNETR(
        1, 1, img_size=(32, 32, 32), feature_size=8, hidden_size=96, mlp_dim=384, num_heads=4
    )


def batch(n):
    return torch.randn(n, 1, 32, 32, 32), (torch.rand(n, 1, 32, 32, 32) < 0.2).float()


def loss(output, target):
    return LOSS(output, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)
