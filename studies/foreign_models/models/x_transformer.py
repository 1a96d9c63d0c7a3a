"""x-transformers: a decoder with rotary positions, gated units and dropout, whose wrapper returns
the loss.
"""

import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

VOCAB, TOKENS = 4096, 128


def model():
    layers = Decoder(
        dim=256,
        depth=4,
        heads=4,
        rotary_pos_emb=True,
        ff_glu=True,
        attn_dropout=0.1,
        ff_dropout=0.1,
    )
    return AutoregressiveWrapper(
        TransformerWrapper(num_tokens=VOCAB, max_seq_len=TOKENS, attn_layers=layers)
    )


def batch(n):
    tokens = torch.randint(VOCAB, (n, TOKENS + 1))
    return tokens, tokens


def loss(output, target):
    return output


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=3e-4)
