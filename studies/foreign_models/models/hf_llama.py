"""transformers: Llama, with grouped queries and its cache of keys and values."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB, TOKENS = 4096, 128


def model():
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCAB,
            hidden_size=256,
            intermediate_size=688,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )


def batch(n):
    tokens = torch.randint(VOCAB, (n, TOKENS))
    return {"input_ids": tokens, "labels": tokens}


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)
