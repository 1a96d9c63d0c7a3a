"""neuraloperator: a Fourier neural operator in two dimensions, whose spectral weights are
complex.
"""

import torch
import torch.nn.functional as F
from neuralop.models import FNO


def model():
    return FNO(n_modes=(16, 16), hidden_channels=32, in_channels=1, out_channels=1, n_layers=4)


def batch(n):
    field = torch.randn(n, 1, 64, 64)
    return field, field.cumsum(-1) / 64


def loss(output, target):
    return F.mse_loss(output, target)


def optimizer(parameters):
    return torch.optim.Adam(parameters, lr=1e-3)
