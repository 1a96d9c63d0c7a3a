"""transformers: GPT-2, with its dropout and its cache of keys and values."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

VOCAB, TOKENS = 4096, 128


def model():
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCAB, n_positions=TOKENS, n_embd=256, n_layer=4, n_head=4)
    )


def batch(n):
    tokens = torch.randint(VOCAB, (n, TOKENS))
    return {"input_ids": tokens, "labels": tokens}


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)
