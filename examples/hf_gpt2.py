"""A small GPT-2 (Radford et al. 2019) of Hugging Face: `framebench try examples/hf_gpt2.py`.

Its dropout is off here, and may be on: docs/try.md says how it is verified then. `--env` names an
interpreter of yours that has transformers; without it the pinned environment is used, PyTorch with
transformers beside it (requirements/transformers.txt).
"""

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

SIZE = {"vocab_size": 2048, "n_positions": 128, "n_embd": 128, "n_layer": 4, "n_head": 4}
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def model():
    return GPT2LMHeadModel(GPT2Config(**SIZE, **NO_DROPOUT, use_cache=False))


def batch(n):
    tokens = torch.randint(SIZE["vocab_size"], (n, SIZE["n_positions"]))
    return tokens, tokens


def loss(output, target):
    return F.cross_entropy(output.logits[:, :-1].flatten(0, 1), target[:, 1:].flatten())


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)
