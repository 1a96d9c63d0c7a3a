"""Print what a block with batch norm and dropout gives, with and without checkpointing."""

import json

import jittor as jt
import numpy as np
from jittor import nn

from framebench.adapters.jittor.checkpoint import replace_random, run_checkpointed


class Block(nn.Module):
    def __init__(self):
        # without a bias, whose gradient would be zero below batch norm
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5, is_train=True)
        self.drop_again = nn.Dropout(0.2, is_train=True)
        self.runs = 0

    def execute(self, x):
        self.runs += 1
        normalised = nn.relu(self.bn(self.conv(x)))
        return self.drop_again(nn.relu(self.drop(normalised)))


rng = np.random.default_rng(0)
IMAGE = rng.standard_normal((2, 3, 5, 5), np.float32)
# more than the two that a block draws, for one that would draw again
NOISE = [rng.random((2, 4, 5, 5), np.float32) for _ in range(4)]


def make_block():
    jt.set_seed(0)
    block = Block()
    for number, p in enumerate(block.parameters()):
        if not p.is_stop_grad():
            values = np.random.default_rng(number).standard_normal(p.shape).astype(np.float32)
            p.assign(values)
    return block


def run_plain(block, x):
    return block(x)


def measure(run_block):
    block = make_block()
    x = jt.array(IMAGE)
    noise = iter(NOISE)

    def draw(*_, **options):
        return jt.array(next(noise)).stop_grad()

    with replace_random(draw):
        loss = (run_block(block, x) ** 2).sum()
        trained = [p for p in block.parameters() if not p.is_stop_grad()]
        grads = jt.grad(loss, [x, *trained])
        grads = [grad.numpy().ravel().tolist() for grad in grads]
    jt.sync_all(True)
    return {
        "loss": loss.item(),
        "grads": grads,
        "mean": block.bn.running_mean.numpy().tolist(),
        "var": block.bn.running_var.numpy().tolist(),
        "runs": block.runs,
        "drawn": len(NOISE) - len(list(noise)),
    }


def has_same_mask():
    """Return whether the backward pass uses the mask of the forward pass.

    The numbers are of Jittor's own generator: only what the gradient keeps tells.
    """
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
