"""denoising-diffusion-pytorch: it draws times and noise, and returns its loss."""

import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet


def model():
    return GaussianDiffusion(
        Unet(dim=32, dim_mults=(1, 2), flash_attn=False), image_size=32, timesteps=1000
    )


def batch(n):
    images = torch.rand(n, 3, 32, 32)
    return images, images


def loss(output, target):
    return output


def optimizer(parameters):
    return torch.optim.Adam(parameters, lr=8e-5, betas=(0.9, 0.99))
