"""Print what is reported of steps that keep an array each, a tensor each, and nothing."""

import json
from collections.abc import Callable

import numpy as np

from framebench.growth.leak_report import StorageTracker, report_leaks

arrays: list[object] = []
tensors: list[object] = []


class Tensor:
    """To the report what has a storage, as PyTorch's tensors do."""

    def untyped_storage(self) -> None: ...


def keep_array() -> None:
    np.full(99, 0.5)  # nobody keeps it
    arrays.append(np.full(1250, 0.5))


def keep_tensor() -> None:
    tensors.append(Tensor())


def keep_nothing() -> None:
    np.full(1250, 0.5)


STEPS: dict[str, Callable[[], None]] = {
    "array": keep_array,
    "tensor": keep_tensor,
    "nothing": keep_nothing,
}
print(json.dumps({name: report_leaks(StorageTracker(), step, []) for name, step in STEPS.items()}))
