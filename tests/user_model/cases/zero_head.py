"""A head that begins at zero, dropout that stays on, and a rate so small that a step hardly
shows.
"""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH = 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = (
            nn.LayerNorm(WIDTH),
            nn.MultiheadAttention(WIDTH, 4, dropout=0.1, batch_first=True),
        )
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x):
        y = self.norm(x)
        return x + self.mlp(x + self.attention(y, y, y, need_weights=False)[0])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.blocks, self.head = (
            nn.Conv2d(3, WIDTH, 4, 4),
            nn.Sequential(Block(), Block()),
            nn.Linear(WIDTH, 10),
        )
        nn.init.zeros_(self.head.weight)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x).flatten(2).transpose(1, 2)).mean(1))


def model():
    return Net()


def batch(n):
    return torch.randn(n, 3, 32, 32), torch.randint(10, (n,))


def loss(output, target):
    return F.cross_entropy(output, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-5)
