"""Read which release of PyTorch runs."""

from __future__ import annotations

import torch


def read_release() -> tuple[int, int]:
    """Return the release of the PyTorch that runs, such as (2, 13)."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)
