"""ResNet as transformers has it, small."""

import torch
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = ResNetForImageClassification(
            ResNetConfig(
                embedding_size=16,
                hidden_sizes=[16, 32],
                depths=[1, 1],
                layer_type="basic",
                num_labels=10,
            )
        )

    def forward(self, x):
        return self.inner(x).logits


def model():
    return Model()


def batch(n):
    return torch.randn(n, 3, 32, 32), torch.randint(10, (n,))


def loss(output, target):
    return nn.functional.cross_entropy(output, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=5e-5)
