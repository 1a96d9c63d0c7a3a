"""Request memory for sorting: `sort`, `topk`, and the indices of `index_put_` that adds up.

CUB sorts pairs of a key and a place into memory of its own if it needs more than one pass, each of
which sorts by 8 bits (`InvokeOnesweep` in cub/device/dispatch/dispatch_radix_sort.cuh). What it
takes for counters is left out: less than a MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil, prod
from typing import Any

import torch
from torch import Tensor

from framebench.devices.simulation.torch_choices import MASKS
from framebench.devices.simulation.torch_gpu import Gpu
from framebench.devices.simulation.torch_requests import (
    copy_unless_contiguous,
    give_back,
    take_and_return,
)

PLACE_BYTES = 8  # of an index or a place: int64
COUNTER_BYTES = 4
BITS_OF_PASS = 8
# in ATen/native/cuda/Sort.h: so many values of a row, or fewer, are sorted in place
MOST_IN_PLACE = 4096
# `launch_stable_sort_kernel` in ATen/native/cuda/SortStable.cu: rows as long as that are sorted one
# after the other, and fewer rows than that together
LONG_ROW = 1_000_000
FEW_ROWS = 128
# of `mbtopk` in ATen/native/cuda/TensorTopK.cu
THREADS = 256  # of a block
REGISTERS = 40  # of a thread
DIGITS = 256
LEAST_VALUES, MOST_VALUES = 4, 64  # of a thread
DIGIT_COUNT_BYTES = 2


def sort_pairs(count: int, key_bytes: int, bits: int) -> list[int]:
    """Return the bytes that CUB takes to sort so many pairs by the low bits of their keys."""
    passes = ceil(bits / BITS_OF_PASS)
    return [count * (key_bytes + PLACE_BYTES)] if passes > 1 else []


def sort(args: tuple[Any, ...], _: Gpu) -> Iterator[int]:
    """Yield the requests of `sort` after its results, which have the layout of the values.

    The arguments are the values and the dimension, and may have `stable` in between. A port of
    `sort_cuda_kernel` in ATen/native/cuda/Sort.cpp.
    """
    values: Tensor = args[0]
    dim = -1
    for arg in args[1:]:
        if type(arg) is int:  # and not a truth value
            dim = arg
    if not values.dim() or not values.numel():
        return
    copies = []
    if values.stride(dim) != 1:
        # the values, and both results, with the sorted dimension last
        copies = [values.nbytes, values.nbytes, values.numel() * PLACE_BYTES]
    elif not is_dense(values):
        copies = [values.nbytes]  # the results are dense, and have the sorted dimension last
    yield from sort_rows(values.numel(), values.shape[dim], values.element_size(), copies)


def sort_rows(count: int, length: int, item: int, copies: Sequence[int]) -> Iterator[int]:
    """Yield the requests to sort `count` values of `item` bytes in rows of `length`.

    `copies` has the bytes of what long rows are copied to.
    """
    if length <= MOST_IN_PLACE:
        yield from take_and_return(length * PLACE_BYTES)  # `fillSliceWithIndex`
        return
    yield from copies
    yield from sort_long_rows(count // length, length, item)
    yield from give_back(copies)


def sort_long_rows(rows: int, length: int, item: int) -> Iterator[int]:
    """Yield the requests of `launch_stable_sort_kernel` in ATen/native/cuda/SortStable.cu."""
    count = rows * length
    if rows == 1 or length >= LONG_ROW:
        indices = length * PLACE_BYTES
        yield indices
        for _ in range(rows):
            yield from take_and_return(*sort_pairs(length, item, 8 * item))
        yield -indices
    elif rows < FEW_ROWS:  # `segmented_sort_pairs_by_full_sort`: pairs of a row and a place, twice
        pairs = count * PLACE_BYTES
        yield from take_and_return(pairs, pairs, count * item, *sort_pairs(count, item, 8 * item))
    else:  # DeviceSegmentedRadixSort, which always has a second buffer
        yield from take_and_return(count * PLACE_BYTES, count * (item + PLACE_BYTES))


def is_dense(tensor: Tensor) -> bool:
    """Return whether the elements fill their memory without a gap and without sharing a place."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def topk(args: tuple[Any, ...], gpu: Gpu) -> Iterator[int]:
    """Yield the requests of `topk` after its results: to find the values, and then to sort them.

    A port of `topk_out_cuda` and `mbtopk::launch` in ATen/native/cuda/TensorTopK.cpp and
    TensorTopK.cu.
    """
    values, wanted = args[:2]
    dim = args[2] if len(args) > 2 else -1
    is_sorted = args[4] if len(args) > 4 else True
    if not values.dim() or not values.numel() or not wanted:
        return
    length = values.shape[dim]
    item = values.element_size()
    rows = values.numel() // length
    buffers = copy_unless_contiguous(values)
    if takes_several_blocks(rows, length):
        buffers += list_topk_buffers(rows, length, item, gpu)
    yield from take_and_return(*buffers)
    if is_sorted and wanted > MOST_IN_PLACE:  # fewer are sorted where they are
        count = rows * wanted
        results = (count * PLACE_BYTES, count * item)
        is_last = prod(values.shape[dim:]) == length
        # the values, and both results, with the sorted dimension last
        copies = [] if is_last else [count * item, count * item, count * PLACE_BYTES]
        yield from results
        yield from sort_rows(count, wanted, item, copies)
        yield from take_and_return(count * PLACE_BYTES)  # the indices in their new order
        yield from give_back(results)


def takes_several_blocks(rows: int, length: int) -> bool:
    """Return whether several blocks of threads share a row: `should_use_multiblock`."""
    thresholds = ((20, 20000), (40, 10000), (80, 8000), (199, 5000), (799, 3000), (4000, 800))
    for most_rows, least_length in thresholds:
        if rows <= most_rows:
            return length >= least_length
    return length >= 400


def list_topk_buffers(rows: int, length: int, item: int, gpu: Gpu) -> list[int]:
    """Return the bytes of the buffers by which several blocks find the values of each row."""
    blocks_at_once = gpu.device.cores * (gpu.device.registers_per_core // (REGISTERS * THREADS))
    values_per_thread = ceil(rows * length / (blocks_at_once * THREADS))
    values_per_thread = max(LEAST_VALUES, min(values_per_thread, MOST_VALUES))
    blocks = rows * ceil(length / (values_per_thread * THREADS))
    return [
        rows * item,  # kthValues
        2 * rows * COUNTER_BYTES,  # ks_to_find
        2 * rows * max(item, COUNTER_BYTES),  # desired, as unsigned numbers of 32 or 64 bits
        blocks * DIGITS * DIGIT_COUNT_BYTES,  # counts
        rows * DIGITS * COUNTER_BYTES,  # digit_cum_sum
        blocks * COUNTER_BYTES,  # withinKCounts
        blocks * COUNTER_BYTES,  # kthCounts
    ]


def put_by_index(args: tuple[Any, ...], _: Gpu) -> Iterator[int]:
    """Yield the requests of `index_put_`, where it adds up or has to be deterministic.

    Such is the backward pass of `tensor[indices]`. Several indices become one linear index, which
    is sorted, so that one block of threads adds up all that goes to one place. A port of
    `index_put_with_sort_kernel` and `makeLinearIndex` in ATen/native/cuda/Indexing.cu.
    """
    target, index_of_dims, values = args[:3]
    adds_up = len(args) > 3 and args[3]
    if not adds_up and not torch.are_deterministic_algorithms_enabled():
        return
    indices = []
    indexed_dims = []
    for dim, index in enumerate(index_of_dims):
        if index is not None:
            indices.append(index)
            indexed_dims.append(dim)
    if not indices or any(index.dtype in MASKS for index in indices):
        return  # masks come here again as indices

    # (dimensions before, indexed dimensions, a slice); if the indexed ones are not adjacent, a copy
    # of the target has them at the front
    is_adjacent = indexed_dims == list(range(indexed_dims[0], indexed_dims[-1] + 1))
    count_before = indexed_dims[0] if is_adjacent else 0
    other_sizes = [size for dim, size in enumerate(target.shape) if dim not in indexed_dims]
    before, in_slice = other_sizes[:count_before], other_sizes[count_before:]
    index_shape = torch.broadcast_shapes(*(index.shape for index in indices))
    count = prod(index_shape)
    linear_index = count * PLACE_BYTES

    contiguous_target = copy_unless_contiguous(target)
    yield from contiguous_target
    yield from make_linear_index(indices, linear_index)
    copies = copy_expanded(values, [*before, *index_shape, *in_slice])
    if not is_adjacent:
        copies.append(target.nbytes)
    yield from copies
    slice_size = prod(in_slice)
    if count and slice_size:
        places = target.numel() // slice_size
        bits = max(1, (places - 1).bit_length())
        second_buffer = sort_pairs(count, PLACE_BYTES, bits)
        # the sorted index, its places, and numbers from 0 on
        yield from take_and_return(linear_index, linear_index, linear_index, *second_buffer)
    yield from give_back([*contiguous_target, linear_index, *copies])


def make_linear_index(indices: Sequence[Tensor], linear: int) -> Iterator[int]:
    """Yield the requests for one index in the place of several, whose `linear` bytes stay taken.

    Negative numbers of each are wrapped around, it is multiplied by its stride, and all are added
    up (`computeLinearIndex`).
    """
    converted = []  # to int64
    for index in indices:
        if index.dtype == torch.int32:
            converted.append(index.numel() * PLACE_BYTES)
    yield from converted
    for number in range(len(indices)):
        wrapped = multiplied = linear
        yield from (wrapped, multiplied, -wrapped)
        if number > 0:  # it was added to the first
            yield -multiplied
    yield from give_back(converted)


def copy_expanded(values: Tensor, shape: Sequence[int]) -> list[int]:
    """Return the bytes of a contiguous copy of expanded values in a list, empty without a copy."""
    if values.expand(shape).is_contiguous():
        return []
    return [prod(shape) * values.element_size()]


TEMPORARIES: dict[str, Callable[[tuple[Any, ...], Gpu], Iterable[int]]] = {
    "sort": sort,
    "topk": topk,
    "index_put": put_by_index,
    "index_put_": put_by_index,
    "_index_put_impl_": put_by_index,
    "_unsafe_index_put": put_by_index,
}
