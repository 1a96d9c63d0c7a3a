"""Compile a framework's kernels once: `python -m framebench.warmup FRAMEWORK` runs every strategy at the `tiny` size.

Jittor compiles each kernel with g++ when it is first met, and keeps it for the life of its environment, whatever the shape.
Without this, the first cases measured on a machine would spend minutes in the compiler.
"""

from __future__ import annotations

import os
import sys

from framebench import adapters
from framebench.cases import Case, profile


def warm(case: Case) -> None:
    adapter = adapters.load(case)
    adapter.build()
    for _ in range(2):
        adapter.step()
        adapter.synchronize()
    if case.scenario == "train":
        adapter.gradient_norm()
    adapter.loss()
    adapter.reset_peak()
    adapter.own_peaks()


if __name__ == "__main__":
    found = [c for c in profile("tiny") if c.framework == sys.argv[1] and c.support.supported]
    for number, each in enumerate(found, 1):
        print(f"{number} of {len(found)}: {each.id}", flush=True)
        warm(each)
    os._exit(0)  # Jittor's clean-up at exit sometimes crashes
