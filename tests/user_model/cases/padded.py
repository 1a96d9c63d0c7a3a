"""Texts of unequal length: padding has the label -100, and the loss is the mean over the other
tokens. The rate begins at 0.
"""

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, TOKENS, WIDTH = 300, 32, 48


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 3 * WIDTH),
            nn.Linear(WIDTH, WIDTH),
        )

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        return x + self.out(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, c)
        )


def model():
    return nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH),
        nn.Sequential(Block(), Block()),
        nn.Linear(WIDTH, VOCABULARY),
    )


def batch(n):
    tokens, length = torch.randint(VOCABULARY, (n, TOKENS)), torch.linspace(4, TOKENS, n).long()
    return tokens, tokens.roll(-1, 1).masked_fill(torch.arange(TOKENS) >= length[:, None], -100)


def loss(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=-100)


def optimizer(parameters):
    made = torch.optim.AdamW(parameters, lr=5e-5)
    torch.optim.lr_scheduler.LambdaLR(made, lambda step: step / 1000)
    return made
