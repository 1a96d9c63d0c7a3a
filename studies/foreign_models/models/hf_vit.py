"""transformers: ViT, which is given pixels and labels by name."""

import torch
from transformers import ViTConfig, ViTForImageClassification


def model():
    return ViTForImageClassification(
        ViTConfig(
            hidden_size=192,
            num_hidden_layers=6,
            num_attention_heads=3,
            intermediate_size=768,
            image_size=112,
            patch_size=8,
            num_labels=10,
        )
    )


def batch(n):
    return {"pixel_values": torch.randn(n, 3, 112, 112), "labels": torch.randint(10, (n,))}


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)
