"""diffusers: the autoencoder of latent diffusion, small, which draws a latent."""

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL


def model():
    return AutoencoderKL(
        block_out_channels=(32, 64),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )


def batch(n):
    images = torch.randn(n, 3, 48, 48)
    return {"sample": images, "sample_posterior": True}, images


def loss(output, target):
    return F.mse_loss(output.sample, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)
