"""A small GPT whose head shares its weights with the embedding; AdamW decays matrices alone."""

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, TOKENS, WIDTH, HEADS = 512, 64, 64, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (
            a.view(n, t, HEADS, c // HEADS).transpose(1, 2)
            for a in self.qkv(self.norm1(x)).split(WIDTH, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(n, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(VOCAB, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks, self.norm = nn.Sequential(*[Block() for _ in range(3)]), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.token.weight = self.head.weight
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.token(x) + self.place.weight)))


def model():
    return GPT()


def batch(n):
    data = torch.randint(VOCAB, (n, TOKENS + 1))
    return data[:, :-1].contiguous(), data[:, 1:].contiguous()


def loss(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def optimizer(parameters):
    parameters = list(parameters)
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95))
