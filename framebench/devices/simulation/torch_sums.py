"""What kernels take for partial sums: of columns, such as a bias's gradient, and of an embedding's rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil, prod
from typing import Any

from framebench.devices.simulation.torch_card import Card

Taken = tuple[int, bool]  # bytes, and whether they are taken (True) or given back
FLOAT, LONG, WARP, MOST_THREADS, VECTOR = 4, 8, 32, 512, 4
FEWEST, MOST = 16, 256  # values that a thread adds up before another block of threads is asked to help
BY_ROW = 3072  # indices, up to which an embedding's gradient needs no sorted copy
ROWS = 10  # of one partial sum of it


def of_columns(args: tuple[Any, ...], card: Card) -> Iterator[Taken]:
    """Where leading dimensions are summed and blocks of threads share a column, each thread's sum goes through memory
    (`setReduceConfig` and `global_memory_size` in ATen/native/cuda/Reduce.cuh)."""
    values, asked = args[0], (args[1] if len(args) > 1 else None) or ()  # without dimensions all are summed
    dims = {dim % values.dim() for dim in asked} if values.dim() else set()
    if dims and dims == set(range(len(dims))) and values.is_contiguous() and len(dims) < values.dim():
        size = _partial(values) * _shared(prod(values.shape[: len(dims)]), prod(values.shape[len(dims) :]), card)
        yield from ((size, True), (size, False))


def _partial(values: Any) -> int:
    """Bytes of one partial sum: half precision is summed in float32, integers and truth values in int64."""
    return max(FLOAT, values.element_size()) if values.is_floating_point() or values.is_complex() else LONG


def _shared(rows: int, columns: int, card: Card) -> int:
    """How many partial sums of so many columns, contiguous along a row, go through memory; 0 where no block needs another's."""
    vector = next(v for v in (VECTOR, 2, 1) if columns % v == 0)
    most = MOST_THREADS // vector
    wide, high = (min(_power_of_two(n), most) for n in (columns // vector, rows))
    width = min(wide, WARP)
    height = min(high, most // width)
    width = min(wide, most // height)
    if rows < min(height * FEWEST, MOST):
        return 0
    each, grid = ceil(rows / height), ceil(columns // vector / width)
    target = card.cores * (card.threads_per_core // (width * height))
    if each < MOST or grid > target:
        return 0
    blocks = max(min(ceil(target / grid), ceil(each / FEWEST)), ceil(each / MOST))
    return columns * blocks * width * vector if blocks > 1 else 0


def _power_of_two(number: int) -> int:
    """The largest that is not more than the number."""
    return 1 << (max(number, 1).bit_length() - 1)


def of_embedding(results: list[Any], args: tuple[Any, ...]) -> Iterable[Any]:
    """The gradient of an embedding's weight, and before and after it what sorts indices and adds up rows of one index
    (`embedding_dense_backward_cuda` in ATen/native/cuda/Embedding.cu, `embedding_backward_cuda_kernel` in
    EmbeddingBackwardKernel.cu). What CUB takes beside keys and values is left out: it is less than a MiB."""
    gradient, indices, weights, padding = args[:4]
    count, item = indices.numel(), indices.element_size()
    if count <= BY_ROW and padding < 0:
        return results
    each = count * item
    partial = count // ROWS + min(count, weights)
    sums = partial * ceil(gradient.shape[-1] / WARP) * WARP * FLOAT
    before = [(each, True), (each, True), (each, True), (2 * each, True), (2 * each, False), (each, False)]
    after = [(each, True), (each, True), (each, True), (partial * item, True), (sums, True)]
    return [*before, *results, *after, *((size, False) for size, _ in reversed(after)), (each, False), (each, False)]
