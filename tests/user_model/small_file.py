"""A small file of the user's own, and what a test changes in it."""

from __future__ import annotations

import textwrap
from pathlib import Path

TORCH = """
import sys
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

def batch(n):
    return torch.randn(n, 6), torch.randn(n, 3)

def loss(output, target):
    return ((output - target) ** 2).mean()
"""


def written(folder: Path, *changes: tuple[str, str], name: str = "mine.py") -> Path:
    """The file above with changes."""
    code = TORCH
    for old, new in changes:
        assert old in code
        code = code.replace(old, textwrap.dedent(new))
    file = folder / name
    file.write_text(code)
    return file
