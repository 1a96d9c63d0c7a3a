"""Llama as transformers has it, small."""

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=256,
                hidden_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                intermediate_size=96,
                max_position_embeddings=32,
            )
        )

    def forward(self, x):
        return self.inner(x).logits


def model():
    return Model()


def batch(n):
    data = torch.randint(256, (n, 33))
    return data[:, :-1].contiguous(), data[:, 1:].contiguous()


def loss(output, target):
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=5e-5)
