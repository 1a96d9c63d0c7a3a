import json

import jittor as jt
import numpy as np
from jittor import nn

from framebench.adapters.jittor.checkpoint import checkpointed, drawing


class Block(nn.Module):
    def __init__(self):
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)  # whose gradient would be zero below batch norm
        self.bn = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5, is_train=True)
        self.again = nn.Dropout(0.2, is_train=True)
        self.runs = 0

    def execute(self, x):
        self.runs += 1
        return self.again(nn.relu(self.drop(nn.relu(self.bn(self.conv(x))))))


rng = np.random.default_rng(0)
image, weights = rng.standard_normal((2, 3, 5, 5), np.float32), {}
noise = [rng.random((2, 4, 5, 5), np.float32) for _ in range(4)]  # more than two, for a block that would draw again


def run(how):
    jt.set_seed(0)
    block = Block()
    for name, p in block.named_parameters():
        weights.setdefault(name, p.numpy().copy())
        p.assign(weights[name])
    x, numbers = jt.array(image), iter(noise)
    with drawing(lambda *_, **__: jt.array(next(numbers)).stop_grad()):
        loss = (how(block, x) ** 2).sum()
        learnt = [p for p in block.parameters() if not p.is_stop_grad()]
        grads = [g.numpy().tolist() for g in jt.grad(loss, [x, *learnt])]
    jt.sync_all(True)
    return dict(
        loss=loss.item(),
        grads=grads,
        mean=block.bn.running_mean.numpy().tolist(),
        var=block.bn.running_var.numpy().tolist(),
        runs=block.runs,
        drawn=4 - len(list(numbers)),
    )


def own_numbers():
    # Jittor's own generator: only what the gradient keeps tells which mask the backward pass has used
    block = nn.Dropout(0.5, is_train=True)
    x = jt.ones((1000,)).start_grad()
    y = checkpointed(block, x)
    return bool((jt.grad(y.sum(), x).numpy() == y.numpy()).all() and 300 < (y.numpy() > 0).sum() < 700)


print(json.dumps([run(lambda block, x: block(x)), run(checkpointed), own_numbers()]))
