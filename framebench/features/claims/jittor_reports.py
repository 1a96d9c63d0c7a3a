"""What users reported about Jittor, small enough for a CPU: each function returns the numbers that decide.

The programs are ours; the issues are https://github.com/Jittor/jittor/issues/NUMBER, and what they report
stands in `framebench/features/claims/source_r.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import jittor as jt
import numpy as np
from jittor import nn

MICRO_BATCHES = 20
Numbers = dict[str, float]


def accumulated(waits: bool) -> float:
    """Variables alive for each micro-batch that `optimizer.backward` adds, if somebody waits for the sums or nobody does."""
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
    optimizer = jt.optim.SGD(model.parameters(), lr=0.1)
    x = jt.array(np.ones((8, 64), np.float32))
    alive = []
    for _ in range(MICRO_BATCHES):
        optimizer.backward((model(x) ** 2).mean())
        if waits:
            jt.sync_all(True)
        alive.append(jt.liveness_info()["lived_vars"])
    return (alive[-1] - alive[len(alive) // 2]) / (len(alive) - 1 - len(alive) // 2)


def waiting_gradients() -> Numbers:
    return {"backward": accumulated(False), "backward_waited": accumulated(True)}


REPORTS: dict[str, Callable[[], Numbers]] = {"602": waiting_gradients}
