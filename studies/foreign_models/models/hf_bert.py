"""transformers:

BERT, which is given a dict with its labels as the Trainer gives it, with its dropout.
"""

import torch
from transformers import BertConfig, BertForMaskedLM

VOCAB, TOKENS = 4096, 128


def model():
    return BertForMaskedLM(
        BertConfig(
            vocab_size=VOCAB,
            hidden_size=256,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=1024,
        )
    )


def batch(n):
    tokens = torch.randint(VOCAB, (n, TOKENS))
    labels = tokens.masked_fill(torch.rand(n, TOKENS) > 0.15, -100)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}


def optimizer(parameters):
    made = torch.optim.AdamW(parameters, lr=5e-5)
    return made, torch.optim.lr_scheduler.LinearLR(made, 1 / 3, total_iters=100)
