"""Request memory to add up columns, as for a bias's gradient, and rows of an embedding."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from framebench.devices.simulation.torch_gpu import Gpu
from framebench.devices.simulation.torch_requests import (
    copy_unless_contiguous,
    give_back,
    take_and_return,
)

if TYPE_CHECKING:
    from torch import Tensor

FLOAT32_BYTES = 4
INT64_BYTES = 8
WARP = 32  # threads
MOST_THREADS = 512  # threads of a block
VECTOR = 4  # values that a thread reads at once
# Values per thread: another block shares a column only if each thread has more than the most, and
# none gets less than the fewest.
FEWEST_VALUES, MOST_VALUES = 16, 256
UNSORTED_INDICES = 3072  # with no more indices, an embedding's gradient needs no sorted copy
ROWS_OF_PARTIAL_SUM = 10  # in an embedding's gradient


def sum_columns(args: tuple[Any, ...], gpu: Gpu) -> list[int]:
    """Return the requests of `torch.sum`, whose arguments are the values and the dimensions.

    Only a sum over leading dimensions of contiguous values makes any request: if several blocks of
    threads share a column, their partial sums go through global memory (`count_partial_sums`).
    """
    values: Tensor = args[0]
    summed = args[1] if len(args) > 1 else None
    if not summed or not values.dim() or not values.numel():  # all dimensions, or none at all
        return []
    dims = sorted(dim % values.dim() for dim in summed)
    count = len(dims)
    is_leading = count < values.dim() and dims == list(range(count))
    if not is_leading or not values.is_contiguous():
        return []
    # integers and booleans are added up as int64, the others at least in float32
    width = INT64_BYTES
    if values.is_floating_point() or values.is_complex():
        width = max(FLOAT32_BYTES, values.element_size())
    rows = prod(values.shape[:count])
    columns = prod(values.shape[count:])
    size = width * count_partial_sums(rows, columns, gpu)
    if not size:
        return []
    return [size, -size]


def count_partial_sums(rows: int, columns: int, gpu: Gpu) -> int:
    """Return how many partial sums a sum over the rows of (rows, columns) writes to global memory.

    It is 0 if each column is summed up by one block of threads. Columns are contiguous along a row.
    This is a port of `setReduceConfig` and `global_memory_size` in ATen/native/cuda/Reduce.cuh,
    with their names. A block has (block_x, block_y) threads: columns are along x, rows along y.
    """
    output_vec_size = next(size for size in (VECTOR, 2, 1) if columns % size == 0)
    max_threads = MOST_THREADS // output_vec_size
    dim0_pow2 = min(find_last_power_of_two(columns // output_vec_size), max_threads)
    dim1_pow2 = min(find_last_power_of_two(rows), max_threads)
    block_x = min(dim0_pow2, WARP)
    block_y = min(dim1_pow2, max_threads // block_x)
    block_x = min(dim0_pow2, max_threads // block_y)
    if rows < min(block_y * FEWEST_VALUES, MOST_VALUES):
        return 0  # the threads of a block do not share a column
    values_per_thread = ceil(rows / block_y)
    grid_x = ceil(columns // output_vec_size / block_x)
    target_grid = gpu.device.cores * (gpu.device.threads_per_core // (block_x * block_y))
    if values_per_thread < MOST_VALUES or grid_x > target_grid:
        return 0
    # enough blocks to fill the GPU, as long as each thread has enough values to add up
    fill_gpu = ceil(target_grid / grid_x)
    max_ctas = ceil(values_per_thread / FEWEST_VALUES)
    min_ctas = ceil(values_per_thread / MOST_VALUES)
    ctas_per_output = max(min(fill_gpu, max_ctas), min_ctas)
    if ctas_per_output <= 1:
        return 0
    # for each column: one partial sum of every block that shares it, times threads along x
    return columns * ctas_per_output * block_x * output_vec_size


def find_last_power_of_two(number: int) -> int:
    """Return the largest power of two that is not more than the number, and at least 1."""
    return 1 << (max(number, 1).bit_length() - 1)


def embedding_backward(
    results: list[Tensor | None], args: tuple[Any, ...], _: Gpu
) -> Iterator[Tensor | int | None]:
    """Yield the requests before and after the gradient of an embedding's weight, and the gradient.

    Indices are sorted, and then the rows of one index are added up
    (`embedding_dense_backward_cuda` in ATen/native/cuda/Embedding.cu,
    `embedding_backward_cuda_kernel` in EmbeddingBackwardKernel.cu).
    What CUB takes for more than keys and values is left out: it is less than a MiB.
    """
    gradient, indices, num_weights, padding = args[:4]
    count = indices.numel()
    copies = copy_unless_contiguous(gradient)
    yield from copies
    if count <= UNSORTED_INDICES and padding < 0:
        yield from results
        yield from give_back(copies)
        return
    keys = count * indices.element_size()
    partial_sums = count // ROWS_OF_PARTIAL_SUM + min(count, num_weights)
    sums = partial_sums * ceil(gradient.shape[-1] / WARP) * WARP * FLOAT32_BYTES
    sorted_indices = (keys, keys)  # and their places
    yield from sorted_indices
    yield from take_and_return(keys, 2 * keys)  # numbers from 0 on, and CUB's second buffer
    yield from results
    yield from take_and_return(keys, keys, keys, partial_sums * indices.element_size(), sums)
    yield from give_back(sorted_indices)
    yield from give_back(copies)
