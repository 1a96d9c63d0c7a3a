"""Partial sums in memory, by the sizes that an H200's own history has."""

from __future__ import annotations

from typing import Any

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
        self, *shape: int, item: int = 4, contiguous: bool = True, kind: str = "real"
    ) -> None:
        self.shape, self.item, self.whole, self.kind = shape, item, contiguous, kind

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        size = 1
        for length in self.shape:
            size *= length
        return size

    def element_size(self) -> int:
        return self.item

    def is_contiguous(self) -> bool:
        return self.whole

    def is_floating_point(self) -> bool:
        return self.kind == "real"

    def is_complex(self) -> bool:
        return self.kind == "complex"


@pytest.mark.parametrize(
    ("columns", "size"),
    [(768, 48 * MIB), (2304, int(132.75 * MIB)), (3072, 132 * MIB)],
)
def test_a_bias_s_gradient_has_the_card_s_workspace(columns: int, size: int) -> None:
    """8 x 1024 tokens, as in the history of the Transformer: twelve of each a step."""
    assert sum_columns((Shaped(8192, columns), [0]), GPU) == [size, -size]
    assert sum_columns((Shaped(8, 1024, columns), [0, 1]), GPU) == [size, -size]


@pytest.mark.parametrize(
    "args",
    [
        (Shaped(8, 786432), [0]),  # few rows: each thread adds up its column
        (Shaped(8192, 768), [1]),  # along a row blocks of threads share no memory worth counting
        (Shaped(8192, 768, contiguous=False), [0]),
        (Shaped(8192, 768), [0, 1]),
        (Shaped(8192, 768), None),
        (Shaped(8192, 768),),
        (Shaped(), []),
    ],
)
def test_other_sums_have_no_workspace(args: tuple[Any, ...]) -> None:
    assert sum_columns(args, GPU) == []


@pytest.mark.parametrize(
    ("item", "kind", "times"), [(2, "real", 1), (8, "real", 2), (1, "whole", 2), (16, "complex", 4)]
)
def test_a_partial_sum_is_as_wide_as_what_a_kernel_adds_up_in(
    item: int, kind: str, times: int
) -> None:
    """Half precision in float32, float64 in itself, truth values in int64, complex128 in two of
    float64.
    """
    single, _ = sum_columns((Shaped(8192, 768), [0]), GPU)
    other, _ = sum_columns((Shaped(8192, 768, item=item, kind=kind), [0]), GPU)
    assert other == times * single > 0


def test_an_unknown_gpu_has_no_workspace() -> None:
    assert sum_columns((Shaped(8192, 768), [0]), Gpu((9, 0))) == []


def test_embedding_gradients_take_the_workspace_of_a_gpu() -> None:
    """27,681,792 bytes for 8,192 tokens of 50,304 words, 72,088 for the offsets; all are given
    back.
    """
    arguments = (Shaped(8, 1024, 768), Shaped(8, 1024, item=8), 50304, -1, False)
    requests = list(embedding_backward(["gradient"], arguments, GPU))
    place = requests.index("gradient")
    assert 27_681_792 in requests[place:]
    assert 72_088 in requests[place:]
    assert sum(requests[:place] + requests[place + 1 :]) == 0


def test_few_indices_are_not_sorted() -> None:
    few = (Shaped(3, 1024, 768), Shaped(3, 1024, item=8), 50304)
    assert list(embedding_backward(["gradient"], (*few, -1, False), GPU)) == ["gradient"]
    assert len(list(embedding_backward(["gradient"], (*few, 0, False), GPU))) > 1, (
        "with a padding index they are"
    )
