"""A fixed float32 product by NumPy's BLAS: `python -m framebench.worker.reference CORE`. Its times, taken in every round of a
block, show how the machine drifts, and what share of that rate a step reaches.

Runs in the interpreter that runs framebench, and speaks the worker's language: `{"turn": 1}` is one product.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from framebench.worker.worker import Abandoned, Emit, own_orders, serve

SIZE, REPEATS = 1024, 2  # some 50 ms on a core of 80 GFLOP/s
FLOP = 2.0 * SIZE**3 * REPEATS


def work(order: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Multiply when told to. Raises Abandoned."""
    if order["core"] is not None:
        os.sched_setaffinity(0, {order["core"]})
    a = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)
    out = np.empty_like(a)
    product(a, out)
    emit({"flop": FLOP})
    for told in own_orders():
        if "finish" in told:
            return {}
        start = time.perf_counter()
        product(a, out)
        emit({"turn": {"wall_s": time.perf_counter() - start}})
    raise Abandoned


def product(a: np.ndarray, out: np.ndarray) -> None:
    for _ in range(REPEATS):
        np.matmul(a, a, out=out)


if __name__ == "__main__":
    serve(work)
