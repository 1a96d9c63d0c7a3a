"""Peaks of models with few and many kinds of products, for each of which a library may keep memory;
each in a process of its own.
"""

import json
import os
import sys
from multiprocessing import get_context
from pathlib import Path

from framebench import adapters
from framebench.suite.case import Case
from framebench.worker.worker import measure_peaks

MODEL = """
import torch
from torch import nn

def model():
    widths = [WIDTH * (1 + i) for i in range(KINDS + 1)]
    return nn.Sequential(*[nn.Linear(a, b) for a, b in zip(widths, widths[1:])])

def batch(n):
    return torch.randn(n, WIDTH), torch.randn(n, 1)

def loss(output, target):
    return (output - target).square().mean()
"""


def read(folder: Path, strategy: str, kinds: int) -> dict[str, object]:
    folder.mkdir()
    os.environ["FRAMEBENCH_OWN"] = str(folder)
    (folder / "mine.py").write_text(MODEL.replace("KINDS", str(kinds)).replace("WIDTH", str(WIDTH)))
    facts = {"file": str(folder / "mine.py"), "framework": "torch", "batch": 64, "defined": []}
    (folder / "own.json").write_text(json.dumps(facts))
    adapter = adapters.load(Case.from_id(f"own/torch/train/{strategy}/b64/mine"))
    adapter.build()
    peak = [measure_peaks(adapter)["host.rss"] for _ in range(3)][-1]
    weights = sum(weight.nbytes for weight in adapter.parameters())
    return {
        "peak": peak,
        "live": adapter.live_bytes(),
        "weights": weights,
        "activations": adapter.observe()["activation_bytes"],
        "holders": adapter.untracked_bytes(),
    }


WIDTH = 32
STRATEGY = sys.argv[2]
with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
    tried = [(Path(sys.argv[1]) / str(kinds), STRATEGY, kinds) for kinds in (4, 8)]
    found = pool.starmap(read, tried, chunksize=1)
print(json.dumps(found))
