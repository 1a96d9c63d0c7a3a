"""What kernels keep in bfloat16, for models of so many kinds of products and of these widths, each in a process of its own."""

import json
import os
import sys
from multiprocessing import get_context
from pathlib import Path

from framebench import adapters
from framebench.suite.case import Case
from framebench.worker.worker import peaks

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


def kept(folder: Path, strategy: str, kinds: int, width: int) -> dict[str, int]:
    folder.mkdir()
    os.environ["FRAMEBENCH_OWN"] = str(folder)
    (folder / "mine.py").write_text(MODEL.replace("KINDS", str(kinds)).replace("WIDTH", str(width)))
    facts = {"file": str(folder / "mine.py"), "framework": "torch", "batch": 64, "defined": []}
    (folder / "own.json").write_text(json.dumps(facts))
    adapter = adapters.load(Case.of(f"own/torch/train/{strategy}/b64/mine"))
    adapter.build()
    for _ in range(3):
        peaks(adapter)
    return adapter.elsewhere()


TRIED = [("amp_bf16", 4, 32), ("amp_bf16", 4, 128), ("amp_bf16", 8, 32), ("fp32", 8, 32)]
with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
    found = pool.starmap(kept, [(Path(sys.argv[1]) / str(at), *one) for at, one in enumerate(TRIED)], chunksize=1)
print(json.dumps(found))
