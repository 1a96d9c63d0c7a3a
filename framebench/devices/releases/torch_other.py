"""The planner of `simulation.torch_plan` in releases of PyTorch that are not the pinned one.

The step is the release's own: its modules, its autograd, its optimizers. What a card decides is not asked of the release but is
in our rules, which were read in the sources of one. Where these are known to differ, `torch_card.Card` is told the release.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

import torch

from framebench.devices.catalog import Device, find
from framebench.devices.simulation import torch_plan
from framebench.devices.simulation.torch_card import Card
from framebench.devices.simulation.torch_device import replaced
from framebench.devices.simulation.torch_simulate import simulate
from framebench.suite.case import Case
from framebench.suite.hypothetical import named


def release() -> tuple[int, int]:
    """Of the PyTorch that runs."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def plan(case: Case, device: Device, timeline: Path | None = None) -> dict[str, Any]:
    """Fields of `planned.Planned`, with a note of what is not this release's own."""
    with replaced(torch_plan, "simulate", functools.partial(simulate, release=release())):
        told = torch_plan.plan(case, device, timeline)
    return told | {"notes": [*told.get("notes", ()), note()]}


def note() -> str:
    read = ".".join(map(str, Card((0, 0)).release))
    return (
        f"Steps are each release's own. The allocator and the kernels' memory are those of PyTorch {read} for all, except the "
        "choice of attention and where cuBLAS's workspace lies."
    )


if __name__ == "__main__":
    print(json.dumps(plan(named(sys.argv[1]), find(sys.argv[2]), *map(Path, sys.argv[3:4]))))
