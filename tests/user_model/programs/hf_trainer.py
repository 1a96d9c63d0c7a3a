"""A classifier as the Trainer of transformers trains it: a dict with labels, the loss in the
output, AdamW with a warm-up that begins at 0, and the dropout that BERT comes with.
"""

import torch
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

SIZE = {
    "vocab_size": 200,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}


def model():
    return BertForSequenceClassification(
        BertConfig(**SIZE, max_position_embeddings=32, num_labels=3)
    )


def batch(n):
    ids = torch.randint(SIZE["vocab_size"], (n, 32))
    mask = (torch.arange(32) < torch.linspace(16, 32, n).long()[:, None]).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.randint(3, (n,))}


def optimizer(parameters):
    made = torch.optim.AdamW(parameters, lr=5e-5)
    return made, get_linear_schedule_with_warmup(made, 100, 1000)
