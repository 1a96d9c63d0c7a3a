"""Article C, batch norm frozen for good: each layer's `train` is replaced by a function that does
nothing.
"""

import json

import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
control = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()


def freeze_bn(module):
    if isinstance(module, nn.BatchNorm2d):
        module.eval()
        module.train = lambda self, mode=None: None


def count_changes(model):
    """Return how many of the layer's three buffers a call changes after model.train()."""
    before = {name: buffer.clone() for name, buffer in model[1].named_buffers()}
    model.train()  # passes the mode on to each layer
    model(torch.randn(8, 3, 8, 8))
    after = dict(model[1].named_buffers())
    return sum(not torch.equal(before[name], after[name]) for name in before)


model.apply(freeze_bn)
changed = count_changes(model)
try:
    model[1].train()
    raises = 0
except TypeError:  # the mode takes the place of self
    raises = 1
found = {
    "buffers_changed": changed,
    "buffers_changed_without": count_changes(control),
    "layer_train_raises": raises,
}
print(json.dumps(found))
