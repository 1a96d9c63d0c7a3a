"""Time a fixed float32 matmul by NumPy's BLAS.

`python -m framebench.worker.control_matmul '{"core": CORE}'`

Its times, taken in every round of a block, show how the machine drifts, and what share of the
matmul's rate a step reaches. It runs in the interpreter that runs framebench, and obeys a worker's
commands: `{"turn": 1}` is one matmul.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from framebench.suite.protocol import REFERENCE_FLOP
from framebench.worker.worker import Abandoned, Emit, read_orders, serve

SIZE = 1024
REPEATS = REFERENCE_FLOP // (2 * SIZE**3)  # some 50 ms on a core of 80 GFLOP/s


def work(orders: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Multiply whenever a command says so.

    Raises Abandoned if the commands end before one says that it is finished.
    """
    if orders["core"] is not None:
        os.sched_setaffinity(0, {orders["core"]})
    a = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)
    out = np.empty_like(a)
    multiply(a, out)
    emit({"flop": float(REFERENCE_FLOP)})
    for command in read_orders():
        if "finish" in command:
            return {}
        start = time.perf_counter()
        multiply(a, out)
        emit({"turn": {"wall_s": time.perf_counter() - start}})
    raise Abandoned


def multiply(a: np.ndarray, out: np.ndarray) -> None:
    """Multiply the matrix with itself REPEATS times, which takes long enough to be timed."""
    for _ in range(REPEATS):
        np.matmul(a, a, out=out)


if __name__ == "__main__":
    serve(work)
