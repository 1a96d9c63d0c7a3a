"""A variational autoencoder, whose noise comes with the batch."""

import torch
from torch import nn

PIXELS, LATENT = 144, 8


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(PIXELS, 64), nn.ReLU(), nn.Linear(64, 2 * LATENT))
        self.decode = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, PIXELS))

    def forward(self, x):
        pixels, noise = x.split([PIXELS, LATENT], 1)
        mean, log_variance = self.encode(pixels).chunk(2, 1)
        return torch.cat(
            [self.decode(mean + noise * (log_variance / 2).exp()), mean, log_variance], 1
        )


def model():
    return VAE()


def batch(n):
    pixels = torch.rand(n, PIXELS)
    return torch.cat([pixels, torch.randn(n, LATENT)], 1), pixels


def loss(output, target):
    decoded, mean, log_variance = output.split([PIXELS, LATENT, LATENT], 1)
    likelihood = nn.functional.binary_cross_entropy_with_logits(
        decoded, target, reduction="none"
    ).sum(1)
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1)
    return (likelihood + divergence).mean()


def optimizer(parameters):
    return torch.optim.Adam(parameters, lr=1e-3)
