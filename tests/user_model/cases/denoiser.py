"""A small U-Net that takes a noisy picture and its time step, and begins as zero."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, TIME = 16, 32


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time, self.skip = nn.Linear(TIME, outputs), nn.Conv2d(inputs, outputs, 1)
        nn.init.zeros_(self.second.weight)

    def forward(self, x, time):
        y = F.silu(self.first(x)) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.second(F.silu(y))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.end = nn.Conv2d(3, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 3, 3, padding=1)
        self.down, self.up = Residual(WIDTH, 2 * WIDTH), Residual(4 * WIDTH, WIDTH)
        self.middle = Residual(2 * WIDTH, 2 * WIDTH)

    def forward(self, x, step):
        waves = 0.01 ** (torch.arange(TIME // 2) / (TIME // 2)) * step[:, None]
        time = torch.cat([waves.sin(), waves.cos()], 1)
        kept = self.down(self.stem(x), time)
        x = self.middle(F.avg_pool2d(kept, 2), time)
        x = torch.cat([F.interpolate(x, scale_factor=2), kept], 1)
        return self.end(self.up(x, time))


def model():
    return UNet()


def batch(n):
    noise = torch.randn(n, 3, 32, 32)
    return (noise + torch.randn(n, 3, 32, 32), torch.randint(1000, (n,))), noise


def loss(output, target):
    return F.mse_loss(output, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)
