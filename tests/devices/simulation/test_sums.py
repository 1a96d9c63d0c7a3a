"""Partial sums in memory, by the sizes that an H200's own history has."""

from __future__ import annotations

from math import prod

import pytest

from framebench.devices.catalog import find
from framebench.devices.simulation.torch_gpu import Gpu
from framebench.devices.simulation.torch_sums import embedding_backward, sum_columns

H200 = find("h200-141gb")
GPU = Gpu((9, 0), cores=H200.cores, threads_per_core=H200.threads_per_core)
MIB = 2**20


class Shaped:
    """What is asked of a tensor."""

    def __init__(
        self, *shape: int, item: int = 4, contiguous: bool = True, is_real: bool = True
    ) -> None:
        self.shape = shape
        self.item = item
        self.contiguous = contiguous
        self.is_real = is_real

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return prod(self.shape)

    def element_size(self) -> int:
        return self.item

    def is_contiguous(self) -> bool:
        return self.contiguous

    def is_floating_point(self) -> bool:
        return self.is_real

    def is_complex(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("values", "size"),
    [
        # 8 x 1024 tokens, as in the history of the Transformer: twelve of each a step
        (Shaped(8192, 768), 48 * MIB),
        (Shaped(8192, 2304), int(132.75 * MIB)),
        (Shaped(8192, 3072), 132 * MIB),
        # half precision is added up in float32, float64 in itself, truth values in int64
        (Shaped(8192, 768, item=2), 48 * MIB),
        (Shaped(8192, 768, item=8), 96 * MIB),
        (Shaped(8192, 768, item=1, is_real=False), 96 * MIB),
    ],
)
def test_a_bias_s_gradient_has_the_workspace_of_a_gpu(values, size):
    assert sum_columns((values, [0]), GPU) == [size, -size]


@pytest.mark.parametrize(
    "args",
    [
        (Shaped(8, 786432), [0]),  # few rows: each thread adds up its column
        (Shaped(8192, 768), [1]),  # along a row blocks of threads share no memory worth counting
        (Shaped(8192, 768, contiguous=False), [0]),
        (Shaped(8192, 768), [0, 1]),  # of all numbers
        (Shaped(8192, 768),),  # of all, without naming the axes
        (Shaped(), []),  # of a single number
    ],
)
def test_other_sums_have_no_workspace(args):
    assert sum_columns(args, GPU) == []


def test_embedding_gradients_take_the_workspace_of_a_gpu():
    """27,681,792 bytes for 8,192 tokens of 50,304 words, 72,088 for the offsets; all are given
    back. Few indices are not sorted, unless there is a padding index.
    """

    def request(batch, padding):
        arguments = (Shaped(batch, 1024, 768), Shaped(batch, 1024, item=8), 50304, padding, False)
        return list(embedding_backward(["gradient"], arguments, GPU))

    requests = request(8, -1)
    place = requests.index("gradient")
    assert {27_681_792, 72_088} <= set(requests[place:])
    assert sum(requests[:place] + requests[place + 1 :]) == 0
    assert request(3, -1) == ["gradient"]
    assert len(request(3, 0)) > 1
