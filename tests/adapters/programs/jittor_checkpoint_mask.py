"""Print whether the backward pass of checkpointed dropout has the mask of its forward pass."""

import json

import jittor as jt
from jittor import nn

from framebench.adapters.jittor.checkpoint import run_checkpointed

x = jt.ones((1000,)).start_grad()
y = run_checkpointed(nn.Dropout(0.5, is_train=True), x)
slopes = jt.grad(y.sum(), x).numpy()
kept = int((y.numpy() > 0).sum())
print(json.dumps(bool((slopes == y.numpy()).all()) and 300 < kept < 700))
