"""A language model of two LSTM layers, whose head has the weights of its embedding."""

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, TOKENS, WIDTH = 1500, 24, 96


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, num_layers=2)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embedding(tokens.t()))  # time first
        return F.log_softmax(self.head(hidden), -1).transpose(0, 1)


def model():
    return Language()


def batch(n):
    tokens = torch.randint(VOCABULARY, (n, TOKENS + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def loss(output, target):
    return F.nll_loss(output.reshape(-1, VOCABULARY), target.reshape(-1))


def optimizer(parameters):
    return torch.optim.SGD(parameters, lr=1.0)
