"""A U-Net that predicts the noise of a diffusion step: group norms, SiLU, a time that is embedded,
attention in the middle.
"""

import math

import torch
from torch import nn

WIDTH = 16


class Block(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, inputs), nn.Conv2d(inputs, width, 3, padding=1)
        self.time, self.norm2 = nn.Linear(WIDTH, width), nn.GroupNorm(4, width)
        self.conv2, self.skip = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(inputs, width, 1)

    def forward(self, x, time):
        y = self.conv1(nn.functional.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.conv2(nn.functional.silu(self.norm2(y)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 3, 3, padding=1)
        self.down, self.middle, self.up = Block(WIDTH, 32), Block(32, 32), Block(48, WIDTH)
        self.attention = nn.MultiheadAttention(32, 2, batch_first=True)

    def forward(self, x):
        image, steps = x[:, :3], x[:, 3, 0, 0]
        rates = torch.exp(-math.log(1e4) * torch.arange(WIDTH // 2, device=x.device) / (WIDTH // 2))
        time = torch.cat([torch.sin(steps[:, None] * rates), torch.cos(steps[:, None] * rates)], 1)
        first = self.stem(image)
        y = self.middle(self.down(nn.functional.avg_pool2d(first, 2), time), time)
        tokens = y.flatten(2).transpose(1, 2)
        y = y + self.attention(tokens, tokens, tokens, need_weights=False)[0].transpose(
            1, 2
        ).reshape(y.shape)
        return self.head(
            self.up(torch.cat([nn.functional.interpolate(y, scale_factor=2), first], 1), time)
        )


def model():
    return UNet()


def batch(n):
    image, noise, share = (
        torch.rand(n, 3, 16, 16),
        torch.randn(n, 3, 16, 16),
        torch.rand(n, 1, 1, 1),
    )
    noisy = share.sqrt() * image + (1 - share).sqrt() * noise
    return torch.cat([noisy, (1000 * share).expand(n, 1, 16, 16)], 1), noise


def loss(output, target):
    return nn.functional.mse_loss(output, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)
