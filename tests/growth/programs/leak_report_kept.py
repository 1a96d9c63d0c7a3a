"""Print what is reported of steps that keep an array each, a tensor each, one in 5, and nothing."""

import json

import numpy as np

from framebench.growth.leak_report import LeakWatch, StorageTracker
from framebench.growth.progress import STEPS_PER_HALF

arrays = []
tensors = []
calls = []


class Tensor:
    """To the report what has a storage, as PyTorch's tensors do."""

    def untyped_storage(self): ...


def keep_array():
    np.full(99, 0.5)  # nobody keeps it
    arrays.append(np.full(1250, 0.5))


def keep_tensor():
    tensors.append(Tensor())


def keep_rarely():
    calls.append(1)
    if len(calls) % 5 == 0:
        tensors.append(Tensor())


def keep_nothing():
    np.full(1250, 0.5)


def watch(step):
    """Return what is reported of these steps."""
    watch = LeakWatch(StorageTracker(), [])
    for _ in range(STEPS_PER_HALF):
        step()
    watch.begin_second_half()
    for _ in range(STEPS_PER_HALF):
        step()
    return watch.finish()


print(json.dumps([watch(step) for step in (keep_array, keep_tensor, keep_rarely, keep_nothing)]))
