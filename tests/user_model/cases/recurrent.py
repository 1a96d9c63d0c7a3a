"""An LSTM over (time, batch), whose head has the embedding's weights."""

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, TOKENS, WIDTH = 2000, 20, 96


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.rnn, self.decoder = (
            nn.Embedding(VOCABULARY, WIDTH),
            nn.LSTM(WIDTH, WIDTH),
            nn.Linear(WIDTH, VOCABULARY),
        )
        self.decoder.weight = self.encoder.weight

    def forward(self, x):
        return self.decoder(self.rnn(self.encoder(x.t()))[0]).transpose(0, 1)


def model():
    return Net()


def batch(n):
    tokens = torch.randint(VOCABULARY, (n, TOKENS + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def loss(output, target):
    return F.cross_entropy(output.reshape(-1, VOCABULARY), target.reshape(-1))


def optimizer(parameters):
    return torch.optim.SGD(parameters, lr=1.0)
