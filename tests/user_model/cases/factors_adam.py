"""The tables of factors.py under an optimizer that is made for sparse gradients, whose moments are dense."""

import torch
from factors import batch, loss, model

__all__ = ["batch", "loss", "model", "optimizer"]


def optimizer(parameters):
    return torch.optim.SparseAdam(parameters, lr=0.01)
