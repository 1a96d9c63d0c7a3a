"""vit-pytorch: CaiT, with its dropout and layers that are left out at random."""

import torch
import torch.nn.functional as F
from vit_pytorch.cait import CaiT


def model():
    return CaiT(
        image_size=128,
        patch_size=8,
        num_classes=10,
        dim=192,
        depth=4,
        cls_depth=1,
        heads=4,
        mlp_dim=384,
        dropout=0.1,
        emb_dropout=0.1,
        layer_dropout=0.05,
    )


def batch(n):
    return torch.randn(n, 3, 128, 128), torch.randint(10, (n,))


def loss(output, target):
    return F.cross_entropy(output, target)


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)
