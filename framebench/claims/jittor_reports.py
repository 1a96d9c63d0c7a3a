"""What users reported about Jittor, small enough for a CPU: each function returns the numbers that decide.

The programs are ours; the issues are https://github.com/Jittor/jittor/issues/NUMBER, and what they report
stands in `framebench/claims/source_r.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import jittor as jt
import numpy as np
from jittor import nn

from framebench.instruments.host import status_bytes

MICRO_BATCHES = 200
Numbers = dict[str, float]


def accumulated(waits: bool) -> tuple[float, float]:
    """Variables alive and bytes in use for each micro-batch that `optimizer.backward` adds, if somebody waits for the sums or
    nobody does; bytes when the last are waited for: what is left of what was asked."""
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
    optimizer = jt.optim.SGD(model.parameters(), lr=0.1)
    x = jt.array(np.ones((8, 64), np.float32))
    alive, used = [], []
    for _ in range(MICRO_BATCHES):
        optimizer.backward((model(x) ** 2).mean())
        if waits:
            jt.sync_all(True)
        alive.append(jt.liveness_info()["lived_vars"])
        used.append(held_bytes())
    return growth(alive), growth(used)


def held_bytes() -> int:
    """Of the process: variables that are not computed yet have no bytes of a pool, only their records."""
    return status_bytes("VmRSS")


def growth(counts: list[int]) -> float:
    """For each micro-batch of the second half."""
    half = len(counts) // 2
    return (counts[-1] - counts[half]) / (len(counts) - 1 - half)


def waiting_gradients() -> Numbers:
    (alone, alone_bytes), (waited, waited_bytes) = accumulated(False), accumulated(True)
    return {"backward": alone, "backward_waited": waited, "bytes": alone_bytes, "bytes_waited": waited_bytes}


REPORTS: dict[str, Callable[[], Numbers]] = {"602": waiting_gradients}
