"""A vision transformer of PyTorch's own encoder layers, norms first."""

import torch
from torch import nn

WIDTH = 48


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.place = (
            nn.Conv2d(3, WIDTH, 4, 4),
            nn.Parameter(torch.randn(1, 65, WIDTH) * 0.02),
        )
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 2 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder, self.head = (
            nn.TransformerEncoder(layer, 3, nn.LayerNorm(WIDTH), enable_nested_tensor=False),
            nn.Linear(WIDTH, 10),
        )

    def forward(self, x):
        y = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(
            self.encoder(torch.cat([self.token.expand(len(y), -1, -1), y], 1) + self.place)[:, 0]
        )


def model():
    return ViT()


def batch(n):
    return torch.randn(n, 3, 32, 32), torch.randint(10, (n,))


def loss(output, target):
    return nn.functional.cross_entropy(output, target, label_smoothing=0.1)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=3e-4, weight_decay=0.05)
