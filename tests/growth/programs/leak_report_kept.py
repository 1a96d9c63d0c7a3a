"""Print what is reported of steps that keep an array each, a tensor each, and nothing."""

import json

import numpy as np

from framebench.growth.leak_report import LeakWatch, StorageTracker
from framebench.growth.progress import STEPS_PER_HALF

arrays = []
tensors = []


class Tensor:
    """To the report what has a storage, as PyTorch's tensors do."""

    def untyped_storage(self): ...


def keep_array():
    np.full(99, 0.5)  # nobody keeps it
    arrays.append(np.full(1250, 0.5))


def keep_tensor():
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


report = {"array": watch(keep_array), "tensor": watch(keep_tensor), "nothing": watch(keep_nothing)}
print(json.dumps(report))
