"""A small file of the user's own, what a test changes in it, and `framebench try` of a file."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

from tests.processes import framebench

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


def write_variant(folder: Path, *changes: tuple[str, str], name: str = "mine.py") -> Path:
    """Write the file above with changes."""
    code = TORCH
    for old, new in changes:
        assert old in code
        code = code.replace(old, textwrap.dedent(new))
    file = folder / name
    file.write_text(code)
    return file


def try_file(file: Path, results: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `framebench try` for memory and verification alone."""
    usual = ("--rounds", "0", "--blocks", "1", "--batch", "4", "--results", str(results))
    return framebench("try", str(file), *usual, *options)
