"""diffusers: the conditional U-Net of latent diffusion, small: a latent, a time and the states of a
text.
"""

import torch
import torch.nn.functional as F
from diffusers import UNet2DConditionModel


def model():
    return UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(64, 128),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=64,
        attention_head_dim=8,
    )


def batch(n):
    inputs = {
        "sample": torch.randn(n, 4, 32, 32),
        "timestep": torch.randint(1000, (n,)),
        "encoder_hidden_states": torch.randn(n, 16, 64),
    }
    return inputs, torch.randn(n, 4, 32, 32)


def loss(output, target):
    return F.mse_loss(output.sample, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)
