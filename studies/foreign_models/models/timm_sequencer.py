"""timm: Sequencer2D, whose mixers are bidirectional LSTMs."""

import timm
import torch
import torch.nn.functional as F


def model():
    return timm.create_model("sequencer2d_s", num_classes=10, layers=[1, 1, 2, 1], img_size=112)


def batch(n):
    return torch.randn(n, 3, 112, 112), torch.randint(10, (n,))


def loss(output, target):
    return F.cross_entropy(output, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)
