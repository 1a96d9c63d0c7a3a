"""A small GPT: the head has the embedding's weights, and AdamW decays matrices alone, in two groups."""

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, TOKENS, WIDTH = 512, 32, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (part.view(n, t, 4, c // 4).transpose(1, 2) for part in self.attn(self.ln_1(x)).split(c, 2))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, c))
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks, self.norm = nn.ModuleList([Block(), Block()]), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, x):
        x = self.tokens(x) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def model():
    return GPT()


def batch(n):
    torch.manual_seed(5)
    tokens = torch.randint(VOCABULARY, (n, TOKENS + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def loss(output, target):
    return F.cross_entropy(output.view(-1, VOCABULARY), target.view(-1))


def optimizer(parameters):
    groups = [[p for p in parameters if p.dim() >= 2], [p for p in parameters if p.dim() < 2]]
    return torch.optim.AdamW([{"params": g, "weight_decay": d} for g, d in zip(groups, (0.1, 0.0))], lr=6e-4, betas=(0.9, 0.95))
