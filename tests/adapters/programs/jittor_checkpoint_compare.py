"""Print what a block with batch norm gives, with and without checkpointing."""

import json

import jittor as jt
import numpy as np
from jittor import nn

from framebench.adapters.jittor.adapter import list_trainable
from framebench.adapters.jittor.checkpoint import run_checkpointed

IMAGE = np.random.default_rng(0).standard_normal((2, 3, 5, 5), np.float32)


class Block(nn.Module):
    def __init__(self):
        # without a bias, whose gradient would be zero below batch norm
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.runs = 0

    def execute(self, x):
        self.runs += 1
        return nn.relu(self.bn(self.conv(x)))


def run_plain(block, x):
    return block(x)


def measure(run_block):
    jt.set_seed(0)
    block = Block()
    for number, p in enumerate(list_trainable(block)):
        p.assign(np.random.default_rng(number).standard_normal(p.shape).astype(np.float32))
    x = jt.array(IMAGE)
    loss = (run_block(block, x) ** 2).sum()
    grads = jt.grad(loss, [x, *list_trainable(block)])
    return {
        "loss": loss.item(),
        "grads": [grad.numpy().ravel().tolist() for grad in grads],
        "statistics": block.bn.running_mean.numpy().tolist()
        + block.bn.running_var.numpy().tolist(),
        "runs": block.runs,
    }


def has_same_mask():
    """Return whether the backward pass of dropout uses the mask of the forward pass."""
    x = jt.ones((1000,)).start_grad()
    y = run_checkpointed(nn.Dropout(0.5, is_train=True), x)
    slopes = jt.grad(y.sum(), x).numpy()
    kept = int((y.numpy() > 0).sum())
    return bool((slopes == y.numpy()).all()) and 300 < kept < 700


answer = {
    "plain": measure(run_plain),
    "checkpointed": measure(run_checkpointed),
    "same mask": has_same_mask(),
}
print(json.dumps(answer))
