import jittor as jt
from jittor import Module, nn


class Block(Module):
    def __init__(self, width):
        self.norm, self.wide, self.narrow = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def execute(self, x):
        return x + self.narrow(nn.relu(self.wide(self.norm(x))))


def model():
    return nn.Sequential(nn.Linear(6, 32), *[Block(32) for _ in range(4)], nn.Linear(32, 3))


def batch(n):
    return jt.randn(n, 256, 6), jt.randn(n, 256, 3)


def loss(output, target):
    return ((output - target) ** 2).mean()


def optimizer(parameters):
    return jt.optim.Adam(parameters, lr=1e-3)
