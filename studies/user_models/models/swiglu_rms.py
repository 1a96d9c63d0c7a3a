"""A decoder as Llama's: rotary positions, RMS norms, SwiGLU, grouped queries."""

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, TOKENS, WIDTH, HEADS, GROUPS = 256, 32, 64, 4, 2
SIZE = WIDTH // HEADS


def turned(x):
    angle = torch.arange(TOKENS)[:, None] / 1e4 ** (torch.arange(0, SIZE, 2) / SIZE)
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.kv = (
            nn.Linear(WIDTH, WIDTH, bias=False),
            nn.Linear(WIDTH, 2 * GROUPS * SIZE, bias=False),
        )
        self.o, self.gate = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 256, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 256, bias=False), nn.Linear(256, WIDTH, bias=False)

    def forward(self, x):
        y, n = self.norm1(x), len(x)
        q = self.q(y).view(n, TOKENS, HEADS, SIZE).transpose(1, 2)
        k, v = (
            a.view(n, TOKENS, GROUPS, SIZE).transpose(1, 2).repeat_interleave(2, 1)
            for a in self.kv(y).chunk(2, -1)
        )
        y = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def model():
    return nn.Sequential(
        nn.Embedding(VOCAB, WIDTH),
        *[Block() for _ in range(3)],
        nn.RMSNorm(WIDTH),
        nn.Linear(WIDTH, VOCAB, bias=False),
    )


def batch(n):
    data = torch.randint(VOCAB, (n, TOKENS + 1))
    return data[:, :-1].contiguous(), data[:, 1:].contiguous()


def loss(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
