"""vit-pytorch: a masked autoencoder, which draws the patches that it hides and returns its loss."""

import torch
from vit_pytorch import MAE, ViT


def model():
    encoder = ViT(image_size=128, patch_size=8, num_classes=10, dim=256, depth=4, heads=4, mlp_dim=1024)
    return MAE(encoder=encoder, masking_ratio=0.75, decoder_dim=192, decoder_depth=2)


def batch(n):
    images = torch.randn(n, 3, 128, 128)
    return images, images


def loss(output, target):
    return output


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)
