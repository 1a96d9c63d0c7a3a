"""A language model of two LSTM layers."""

import torch
from torch import nn

VOCAB, WIDTH = 256, 64


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.head = (
            nn.Embedding(VOCAB, WIDTH),
            nn.LSTM(WIDTH, WIDTH, 2, batch_first=True),
            nn.Linear(WIDTH, VOCAB),
        )

    def forward(self, x):
        return self.head(self.lstm(self.embed(x))[0])


def model():
    return LM()


def batch(n):
    data = torch.randint(VOCAB, (n, 33))
    return data[:, :-1].contiguous(), data[:, 1:].contiguous()


def loss(output, target):
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


def optimizer(parameters):
    return torch.optim.Adam(parameters, lr=2e-3)
