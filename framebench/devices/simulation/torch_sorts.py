"""Request memory for sorting: `sort`, `topk`, and the indices of `index_put_` that adds up.

CUB sorts pairs of a key and a place into memory of its own if it needs more than one pass, each of
which sorts by 8 bits (`InvokeOnesweep` in cub/device/dispatch/dispatch_radix_sort.cuh). What it
takes for counters is left out: less than a MiB. A request is a number of bytes: positive where they
are taken, negative where they are given back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil, prod
from typing import Any

import torch
from torch import Tensor

from framebench.devices.simulation.torch_choices import MASKS
from framebench.devices.simulation.torch_gpu import Gpu

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


def nest(*sizes: int) -> Iterator[int]:
    """Yield the requests for memory that is alive at once and then given back."""
    yield from sizes
    for size in reversed(sizes):
        yield -size


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
        if type(arg) is int:
            dim = arg
    if not values.dim() or not values.numel():
        return
    length = values.shape[dim]
    if length <= MOST_IN_PLACE:
        yield from nest(length * PLACE_BYTES)  # `fillSliceWithIndex`
        return
    copies = []
    if values.stride(dim) != 1 or not is_dense(values):
        # the values, and both results, with the sorted dimension last
        copies = [values.nbytes, values.nbytes, values.numel() * PLACE_BYTES]
    yield from copies
    yield from sort_long_rows(values.numel() // length, length, values.element_size())
    yield from (-size for size in reversed(copies))


def sort_long_rows(rows: int, length: int, item: int) -> Iterator[int]:
    """Yield the requests of `launch_stable_sort_kernel` in ATen/native/cuda/SortStable.cu."""
    count = rows * length
    if rows == 1 or length >= LONG_ROW:
        indices = length * PLACE_BYTES
        yield indices
        for _ in range(rows):
            yield from nest(*sort_pairs(length, item, 8 * item))
        yield -indices
    elif rows < FEW_ROWS:  # `segmented_sort_pairs_by_full_sort`: pairs of a row and a place, twice
        pairs = count * PLACE_BYTES
        yield from nest(pairs, pairs, count * item, *sort_pairs(count, item, 8 * item))
    else:  # DeviceSegmentedRadixSort, which always has a second buffer
        yield from nest(count * PLACE_BYTES, count * (item + PLACE_BYTES))


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
    rows = values.numel() // length
    found = [] if values.is_contiguous() else [values.nbytes]
    if takes_several_blocks(rows, length):
        found += list_topk_buffers(rows, length, values.element_size(), gpu)
    yield from nest(*found)
    if is_sorted and wanted > MOST_IN_PLACE:
        count = rows * wanted
        results = (count * PLACE_BYTES, count * values.element_size())
        yield from results
        yield from sort_long_rows(rows, wanted, values.element_size())
        yield from nest(count * PLACE_BYTES)  # the indices in their new order
        yield from (-size for size in reversed(results))


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

    Such is the backward pass of `tensor[indices]`. Indices are sorted, so that the rows of one
    index are added up by one block of threads. A port of `index_put_with_sort_kernel` and
    `makeLinearIndex` in ATen/native/cuda/Indexing.cu.
    """
    target, given, values = args[:3]
    adds_up = len(args) > 3 and args[3]
    if not adds_up and not torch.are_deterministic_algorithms_enabled():
        return
    places = [place for place, index in enumerate(given) if index is not None]
    indices = [index for index in given if index is not None]
    if not indices or any(index.dtype in MASKS for index in indices):
        return  # masks come here again as indices
    shape = torch.broadcast_shapes(*(index.shape for index in indices))
    count = prod(shape)
    is_adjacent = places[-1] - places[0] + 1 == len(places)
    # the dimensions before those that are indexed, unless these are moved to the front
    before = target.shape[: places[0]] if is_adjacent else ()
    after = [size for place, size in enumerate(target.shape) if place not in places]
    after = after[len(before) :]

    linear = count * PLACE_BYTES
    taken = [] if target.is_contiguous() else [target.nbytes]
    yield from taken
    yield from make_linear_index(indices, linear)
    copies = copy_expanded(values, [*before, *shape, *after])
    if not is_adjacent:
        copies.append(target.nbytes)
    yield from copies
    if count and prod(after):
        largest_key = (target.numel() - 1) // prod(after)
        buffer = sort_pairs(count, PLACE_BYTES, max(1, largest_key.bit_length()))
        # the sorted indices, their places, and numbers from 0 on
        yield from nest(linear, linear, linear, *buffer)
    yield from (-size for size in [*copies, linear, *taken])


def make_linear_index(indices: Sequence[Tensor], linear: int) -> Iterator[int]:
    """Yield the requests for one index in the place of several, whose `linear` bytes stay taken.

    Each is wrapped around, multiplied by its stride, and added (`computeLinearIndex`).
    """
    converted = []
    for index in indices:
        if index.dtype == torch.int32:
            converted.append(index.numel() * PLACE_BYTES)
    yield from converted
    for number in range(len(indices)):
        wrapped = multiplied = linear
        yield from (wrapped, multiplied, -wrapped)
        if number > 0:  # it was added to the first
            yield -multiplied
    yield from (-size for size in reversed(converted))


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
