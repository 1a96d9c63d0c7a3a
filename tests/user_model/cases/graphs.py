"""Graphs of a batch in one axis, with an index of whose node is which
(https://github.com/pyg-team/pytorch_geometric/issues/459).
"""

import torch
import torch.nn.functional as F
from torch import nn

FEATURES = 32
WIDTH = 128
NODES = 60
EDGES = 600


class Attention(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.linear = nn.Linear(inputs, WIDTH, bias=False)
        self.source = nn.Parameter(torch.randn(WIDTH) * 0.1)
        self.target = nn.Parameter(torch.randn(WIDTH) * 0.1)

    def forward(self, x, edge_index):
        source, target = edge_index
        hidden = self.linear(x)
        scores = (hidden * self.source).sum(-1)[source] + (hidden * self.target).sum(-1)[target]
        scores = F.leaky_relu(scores, 0.2).exp()
        total = torch.zeros(len(x), dtype=x.dtype).scatter_add(0, target, scores)
        weights = scores / total[target].clamp(min=1e-9)
        messages = weights.unsqueeze(-1) * hidden[source]
        return torch.zeros_like(hidden, dtype=messages.dtype).index_add(0, target, messages)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Attention(FEATURES), Attention(WIDTH), Attention(WIDTH)])
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x, edge_index, batch):
        for layer in self.layers:
            x = F.elu(layer(x, edge_index))
        graphs = int(batch.max()) + 1
        sums = torch.zeros(graphs, WIDTH, dtype=x.dtype).index_add(0, batch, x)
        return self.head(sums / torch.bincount(batch, minlength=graphs).unsqueeze(-1))


def model():
    return Network()


def batch(n):
    edges = [torch.randint(NODES, (2, EDGES)) + i * NODES for i in range(n)]
    inputs = {
        "x": torch.randn(n * NODES, FEATURES),
        "edge_index": torch.cat(edges, 1),
        "batch": torch.arange(n).repeat_interleave(NODES),
    }
    return inputs, torch.randint(2, (n,))


loss = F.cross_entropy


def optimizer(parameters):
    return torch.optim.Adam(parameters, lr=5e-3, weight_decay=5e-4)
