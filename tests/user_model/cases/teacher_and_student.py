"""A student and a teacher of several layers each: two levels of modules repeat."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH = 192
TOKENS = 64


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layers = []
        for _ in range(4):
            layers.append(
                nn.TransformerEncoderLayer(
                    WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
                )
            )
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Distilled(nn.Module):
    def __init__(self):
        super().__init__()
        self.student, self.teacher = Encoder(), Encoder()
        self.teacher.requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            expected = self.teacher(x)
        return self.student(x), expected


def model():
    return Distilled()


def batch(n):
    return torch.randn(n, TOKENS, WIDTH), None


def loss(output, target):
    return F.mse_loss(*output)
