"""MONAI: a U-Net over volumes with residual units, and its Dice loss."""

import torch
from monai.losses import DiceCELoss
from monai.networks.nets import UNet

LOSS = DiceCELoss(to_onehot_y=True, softmax=True)


def model():
    return UNet(
        3,
        in_channels=1,
        out_channels=3,
        channels=(16, 32, 64),
        strides=(2, 2),
        num_res_units=2,
        dropout=0.1,
    )


def batch(n):
    return torch.randn(n, 1, 32, 32, 32), torch.randint(3, (n, 1, 32, 32, 32))


def loss(output, target):
    return LOSS(output, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)
