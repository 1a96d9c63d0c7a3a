"""Simulate steps of models that people train, and count bounds of their bytes on the CPU.

The program prints JSON by model. Hooks of autograd count what it saves. No model has dropout, which
saves other masks on a CPU than on a GPU.
"""

import json
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from framebench.devices import simulate

WIDTH, HEADS, WORDS, LENGTH, BATCH = 256, 4, 4096, 128, 16
TRANSFORMER_LAYER = {
    "d_model": WIDTH,
    "nhead": HEADS,
    "dim_feedforward": 4 * WIDTH,
    "dropout": 0.0,
    "activation": "gelu",
    "batch_first": True,
    "norm_first": True,
}


class MaskedText(nn.Module):
    """An encoder of padded texts, as BERT is one."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(**TRANSFORMER_LAYER)
        self.encoder = nn.TransformerEncoder(layer, num_layers=3, enable_nested_tensor=False)

    def forward(self, texts, lengths, labels):
        is_padding = torch.arange(LENGTH, device=texts.device) >= lengths[:, None]
        encoded = self.encoder(self.words(texts), src_key_padding_mask=is_padding)
        scores = F.linear(encoded, self.words.weight)
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


class Detector(nn.Module):
    """A detector that is trained at the places of an image that lie within its target boxes."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 64, 3, 2, 1, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.Conv2d(64, 64, 3, 1, 1),
            nn.ReLU(),
        )
        self.scores = nn.Conv2d(64, 8, 3, padding=1)
        self.boxes = nn.Conv2d(64, 4, 3, padding=1)

    def forward(self, images, targets):
        features = self.trunk(images)
        scores = self.scores(features).flatten(2).transpose(1, 2)
        boxes = self.boxes(features).flatten(2).transpose(1, 2)
        loss = scores.square().mean()
        for scores_of_image, boxes_of_image, target_boxes in zip(scores, boxes, targets):
            place, number = self.match(target_boxes, len(scores_of_image))
            loss = loss + F.smooth_l1_loss(
                boxes_of_image[place], target_boxes[number], reduction="sum"
            )
            loss = loss + F.cross_entropy(scores_of_image[place], number, reduction="sum")
        return loss

    def match(self, target_boxes, n_places):
        """Return the indices of the places that lie in a target box, and of those boxes."""
        places = torch.linspace(0, 1, n_places, device=target_boxes.device)[:, None]
        is_inside = (places > target_boxes[:, 0]) & (places < target_boxes[:, 1])
        return torch.where(is_inside)


def draw_texts():
    return torch.randint(WORDS, (BATCH, LENGTH))


PROGRAMS = {
    "padded texts": (MaskedText, lambda: (draw_texts(), torch.full((BATCH,), 100), draw_texts())),
    "detector": (Detector, lambda: (torch.randn(4, 3, 128, 128), [torch.rand(5, 4)] * 4)),
}


class CountResults(TorchDispatchMode):
    """Keep the storages of all results of operators."""

    def __init__(self):
        super().__init__()
        self.storages = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.storages.update(find_storages(out))
        return out


def find_storages(tensors):
    """Return the storages of a tree of tensors by their identity, each once."""
    storages = {}
    for tensor in tree_leaves(tensors):
        if isinstance(tensor, torch.Tensor):
            storage = tensor.untyped_storage()
            storages[storage._cdata] = storage
    return storages


def count_bytes(storages: Mapping) -> int:
    return sum(storage.nbytes() for storage in storages.values())


def bound_peak(make_model, make_batch):
    """Return a lower and an upper bound of the peak of a step of AdamW, in bytes."""
    torch.manual_seed(0)
    model, batch = make_model(), make_batch()
    weights = find_storages([*model.parameters(), *model.buffers()])
    inputs = find_storages(batch)
    saved = {}

    def save(tensor):
        saved.update(find_storages(tensor))
        return tensor

    results = CountResults()
    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor), results:
        model(*batch)
    for key in (*weights, *inputs):
        saved.pop(key, None)
    gradients = count_bytes(find_storages(list(model.parameters())))
    moments = 2 * gradients
    lasting = count_bytes(weights) + moments
    after_forward = lasting + count_bytes(inputs) + count_bytes(saved)
    in_update = lasting + gradients
    # all at once: the update's copy of the weights, and a gradient for each result of an operator
    everything = in_update + gradients + count_bytes(inputs) + 2 * count_bytes(results.storages)
    return max(after_forward, in_update), everything


def simulate_program(make_model, make_batch, chosen):
    """Return the bytes in use at the peak of a step on a GPU, without workspaces of libraries."""

    def make_step(device):
        model = make_model().to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        batch = tree_map(lambda tensor: tensor.to(device), make_batch())

        def step():
            optimizer.zero_grad()
            model(*batch).backward()
            optimizer.step()

        return step

    simulation = simulate(make_step, "a100-40gb", chosen=chosen)
    return simulation.allocated - simulation.kinds["workspaces"]


answers = {}
for name, (make_model, make_batch) in PROGRAMS.items():
    lower_bound, upper_bound = bound_peak(make_model, make_batch)
    choices = ("none", "all") if name == "detector" else (None,)
    answers[name] = {
        "lower_bound": lower_bound,
        "upper_bound": upper_bound,
        "simulated": [simulate_program(make_model, make_batch, chosen) for chosen in choices],
    }
print(json.dumps(answers))
