"""Steps of kinds that people train, simulated, and counted by hand on the CPU.

What autograd saves is counted by its own hooks, in a forward pass with numbers. Printed as JSON, by
name. No step drops out: on a CPU dropout saves other masks than on a GPU.
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


LAYER = {  # of a Transformer, without dropout
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
        layer = nn.TransformerEncoderLayer(**LAYER)
        self.encoder = nn.TransformerEncoder(layer, num_layers=3, enable_nested_tensor=False)

    def forward(self, texts, lengths, labels):
        is_padding = torch.arange(LENGTH, device=texts.device) >= lengths[:, None]
        x = self.encoder(self.words(texts), src_key_padding_mask=is_padding)
        scores = F.linear(x, self.words.weight)
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=-100)


class Speech(nn.Module):
    """Convolutions over time, an encoder, and a decoder that attends to it, as in Whisper."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(80, WIDTH, 3, padding=1)
        self.second = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.transformer = nn.Transformer(num_encoder_layers=2, num_decoder_layers=2, **LAYER)

    def forward(self, sound, texts):
        x = F.gelu(self.first(sound))
        x = F.gelu(self.second(x))
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, device=sound.device)
        y = self.transformer(
            x.transpose(1, 2), self.words(texts), tgt_mask=mask, tgt_is_causal=True
        )
        scores = F.linear(y, self.words.weight)
        return F.cross_entropy(scores.flatten(0, 1), texts.flatten())


class Residual(nn.Module):
    """A residual block of a denoiser, which is told the time."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first_norm = nn.GroupNorm(8, inputs)
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second_norm = nn.GroupNorm(8, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(64, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        shift = self.time(F.silu(time))[:, :, None, None]
        y = self.first(F.silu(self.first_norm(x))) + shift
        y = self.second(F.silu(self.second_norm(y)))
        return self.skip(x) + y


class Denoiser(nn.Module):
    """A U-Net that predicts noise, as in diffusion."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3, padding=1)
        self.down = Residual(64, 64)
        self.middle = Residual(64, 128)
        self.up = Residual(192, 64)
        self.head = nn.Conv2d(64, 3, 3, padding=1)

    def forward(self, images, times, noise):
        time = times[:, None] * torch.linspace(0, 1, 64, device=images.device)
        skipped = self.down(self.stem(images), time)
        x = self.middle(F.avg_pool2d(skipped, 2), time)
        x = F.interpolate(x, scale_factor=2)
        x = self.up(torch.cat([x, skipped], 1), time)
        return F.mse_loss(self.head(x), noise)


class Detector(nn.Module):
    """A detector that learns its boxes at the places that lie in a box of the image."""

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
        x = self.trunk(images)
        scores = self.scores(x).flatten(2).transpose(1, 2)
        boxes = self.boxes(x).flatten(2).transpose(1, 2)
        places = torch.linspace(0, 1, scores.shape[1], device=images.device)[:, None]
        total = scores.square().mean()
        for score, box, target in zip(scores, boxes, targets):
            is_after_begin = places > target[None, :, 0]
            is_before_end = places < target[None, :, 1]
            inside, which = torch.where(is_after_begin & is_before_end)
            total = total + F.smooth_l1_loss(box[inside], target[which], reduction="sum")
            total = total + F.cross_entropy(score[inside], which % 8, reduction="sum")
        return total


def draw_texts():
    return torch.randint(WORDS, (BATCH, LENGTH))


PROGRAMS = {
    "padded texts": (MaskedText, lambda: (draw_texts(), torch.full((BATCH,), 100), draw_texts())),
    "speech": (Speech, lambda: (torch.randn(BATCH, 80, 2 * LENGTH), draw_texts())),
    "denoiser": (
        Denoiser,
        lambda: (torch.randn(4, 3, 64, 64), torch.rand(4), torch.randn(4, 3, 64, 64)),
    ),
    "detector": (Detector, lambda: (torch.randn(4, 3, 128, 128), [torch.rand(5, 4)] * 4)),
}


class CountResults(TorchDispatchMode):
    """Count the bytes of all storages that operators make."""

    def __init__(self):
        super().__init__()
        self.storages = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.storages.update(find_storages(out))
        return out


def find_storages(tensors):
    """Return the storages of a tree of tensors, which keeps them alive."""
    storages = {}
    for tensor in tree_leaves(tensors):
        if isinstance(tensor, torch.Tensor):
            storage = tensor.untyped_storage()
            storages[storage._cdata] = storage
    return storages


def count_bytes(storages: Mapping) -> int:
    return sum(storage.nbytes() for storage in storages.values())


def count_by_hand(make_model, make_batch):
    """Return the bytes that a step of AdamW has at least and at most at once.

    At least: weights, gradients and two moments during the update; or weights, moments, batch and
    what is saved at the end of the forward pass. At most: all of it together, with every result of
    the forward pass, a gradient for each of them, and the update's copy of the weights.
    """
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
    lasting = count_bytes(weights) + 2 * gradients
    during_forward = lasting + count_bytes(inputs) + count_bytes(saved)
    everything = lasting + 2 * gradients + count_bytes(inputs) + 2 * count_bytes(results.storages)
    return max(lasting + gradients, during_forward), everything


def simulate_program(make_model, make_batch, **options):
    """Return what the step takes in use on a GPU without libraries' workspaces, or why not."""

    def make_step(device):
        model = make_model().to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        batch = tree_map(lambda tensor: tensor.to(device), make_batch())

        def step():
            optimizer.zero_grad()
            model(*batch).backward()
            optimizer.step()

        return step

    simulation = simulate(make_step, "a100-40gb", **options)
    return simulation.allocated - simulation.kinds["workspaces"]


answers = {}
for name, (make_model, make_batch) in PROGRAMS.items():
    least, most = count_by_hand(make_model, make_batch)
    if name == "detector":
        simulated = [simulate_program(make_model, make_batch, chosen=c) for c in ("none", "all")]
    else:
        simulated = [simulate_program(make_model, make_batch)]
    answers[name] = {"least": least, "most": most, "simulated": simulated}
print(json.dumps(answers))
