"""A student that learns the logits of a teacher, which only the loss calls."""

import torch
import torch.nn.functional as F
from torch import nn

TEACHER = nn.Sequential(*[nn.Linear(768, 768) for _ in range(4)]).requires_grad_(False)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(96, 192), nn.Linear(192, 96)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


def model():
    return nn.Sequential(
        nn.Linear(48, 96), nn.Sequential(*[Block() for _ in range(3)]), nn.Linear(96, 10)
    )


def batch(n):
    x = torch.randn(n, 48)
    return x, x


def loss(output, target):
    with torch.no_grad():
        wanted = TEACHER(target.repeat(1, 16))[:, :10]
    return F.kl_div(
        output.log_softmax(-1), wanted.log_softmax(-1), log_target=True, reduction="batchmean"
    )


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)
