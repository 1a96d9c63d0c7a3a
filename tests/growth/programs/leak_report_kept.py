"""What is told of steps that keep an array each, a tensor each, and nothing."""

import json
from collections.abc import Callable

import numpy as np

from framebench.growth.leak_report import Storages, leak_report

arrays: list[object] = []
tensors: list[object] = []


class Tensor:
    """To the report what has a storage, as PyTorch's tensors do."""

    def untyped_storage(self) -> None: ...


def an_array() -> None:
    np.full(99, 0.5)  # nobody keeps it
    arrays.append(np.full(1250, 0.5))


STEPS: dict[str, Callable[[], object]] = {
    "array": an_array,
    "tensor": lambda: tensors.append(Tensor()),
    "nothing": lambda: np.full(1250, 0.5),
}
print(json.dumps({name: leak_report(Storages(), step, []) for name, step in STEPS.items()}))
