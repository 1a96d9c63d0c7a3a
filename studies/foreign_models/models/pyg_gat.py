"""torch_geometric: graph attention, a batch of graphs with the same edges."""

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import GAT

NODES, EDGES = 200, 4000


class Graphs(nn.Module):
    """As many copies of the edges as there are graphs."""

    def __init__(self):
        super().__init__()
        self.net = GAT(32, 64, num_layers=3, out_channels=7, heads=4, dropout=0.3, v2=True)
        self.register_buffer("edges", torch.randint(NODES, (2, EDGES)))

    def forward(self, x):
        n = len(x)
        shift = torch.arange(n).repeat_interleave(EDGES) * NODES
        return self.net(x.flatten(0, 1), self.edges.repeat(1, n) + shift).unflatten(0, (n, NODES))


def model():
    return Graphs()


def batch(n):
    return torch.randn(n, NODES, 32), torch.randint(7, (n, NODES))


def loss(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def optimizer(parameters):
    return torch.optim.Adam(parameters, lr=5e-3, weight_decay=5e-4)
