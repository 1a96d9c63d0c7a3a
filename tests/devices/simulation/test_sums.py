"""Partial sums in memory, by the sizes that an H200's own history has."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from framebench.devices.catalog import find
from framebench.devices.simulation.torch_gpu import Gpu
from framebench.devices.simulation.torch_sums import embedding_backward, sum_columns

GPU = Gpu(find("h200-141gb"))
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
        (Shaped(), [0]),
        (Shaped(10**6, 0), [0]),  # of no number
    ],
)
def test_other_sums_have_no_workspace(args):
    assert sum_columns(args, GPU) == []


NO_PADDING, FIRST_WORD = -1, 0  # the index whose row gets no gradient


def request_embedding(texts: int, padding: int = NO_PADDING) -> list[Any]:
    """Return what the gradient of 50,304 words in 768 dimensions requests, around the gradient.

    The texts have 1,024 tokens each, and an index is an int64.
    """
    gradient, indices = Shaped(texts, 1024, 768), Shaped(texts, 1024, item=8)
    return list(embedding_backward(["gradient"], (gradient, indices, 50304, padding, False), GPU))


def test_an_embeddings_gradient_takes_its_partial_sums():
    """Eight texts have 8,192 tokens, and at most 8,192 + 819 partial sums: one for each word, and
    one for each ten tokens.
    """
    requests = request_embedding(texts=8)
    after_gradient = requests[requests.index("gradient") :]
    assert 27_681_792 in after_gradient, "9,011 rows of 768 float32 numbers"
    assert 72_088 in after_gradient, "where each of them begins, an int64"


def test_what_an_embeddings_gradient_takes_is_given_back():
    sizes = request_embedding(texts=8)
    sizes.remove("gradient")
    assert max(sizes) > 0
    assert sum(sizes) == 0


@pytest.mark.parametrize(
    ("texts", "padding", "are_sorted"),
    [(3, NO_PADDING, False), (4, NO_PADDING, True), (3, FIRST_WORD, True)],
    ids=["3,072 indices", "4,096 indices", "3,072 with a padding index"],
)
def test_few_indices_are_not_sorted_unless_one_is_padding(texts, padding, are_sorted):
    requests = request_embedding(texts, padding)
    assert (requests != ["gradient"]) == are_sorted
