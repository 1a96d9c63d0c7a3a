"""What users reported about Jittor, small enough for a CPU: `python jittor_reports.py NUMBER`.

The last line that it prints has the numbers that decide, which the function of `REPORTS` returns.

The programs are ours; the issues are https://github.com/Jittor/jittor/issues/NUMBER, and what they
report stands in `framebench/claims/sources/r.toml`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import jittor as jt
import numpy as np
from jittor import nn

from framebench.instruments.host import read_status

MICRO_BATCHES = 200
Numbers = dict[str, float]


def accumulate(waits: bool) -> tuple[float, float]:
    """Return the variables and the bytes that each micro-batch adds.

    `optimizer.backward` accumulates its gradients. The bytes are the process's: variables that are
    not computed yet have no bytes of a pool, only their records. Somebody waits for the sums after
    each micro-batch, or nobody does.
    """
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
    optimizer = jt.optim.SGD(model.parameters(), lr=0.1)
    x = jt.array(np.ones((8, 64), np.float32))
    alive, used = [], []
    for _ in range(MICRO_BATCHES):
        optimizer.backward((model(x) ** 2).mean())
        if waits:
            jt.sync_all(True)
        alive.append(jt.liveness_info()["lived_vars"])
        used.append(read_status("VmRSS"))
    return compute_growth(alive), compute_growth(used)


def compute_growth(counts: list[int]) -> float:
    """Return the growth for each micro-batch of the second half."""
    half = len(counts) // 2
    return (counts[-1] - counts[half]) / (len(counts) - 1 - half)


def accumulate_gradients() -> Numbers:
    """Return the growth where nobody waits, and where somebody does."""
    variables, used = accumulate(waits=False)
    variables_waited, used_waited = accumulate(waits=True)
    return {
        "backward": variables,
        "backward_waited": variables_waited,
        "bytes": used,
        "bytes_waited": used_waited,
    }


REPORTS: dict[str, Callable[[], Numbers]] = {"602": accumulate_gradients}

if __name__ == "__main__":
    print(json.dumps(REPORTS[sys.argv[1]]()))
