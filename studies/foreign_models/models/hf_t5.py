"""transformers: T5, an encoder and a decoder, with its dropout."""

import torch
from transformers import T5Config, T5ForConditionalGeneration

VOCAB, TOKENS = 4096, 96


def model():
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCAB,
            d_model=256,
            d_kv=64,
            d_ff=1024,
            num_layers=3,
            num_heads=4,
            decoder_start_token_id=0,
        )
    )


def batch(n):
    return {
        "input_ids": torch.randint(VOCAB, (n, TOKENS)),
        "labels": torch.randint(VOCAB, (n, TOKENS)),
    }


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)
