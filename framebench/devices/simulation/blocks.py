"""Define the blocks of memory that PyTorch's allocator hands out, and its pools of free ones.

These are the constants and small functions of `c10/cuda/CUDACachingAllocator.cpp` and
`c10/core/AllocatorConfig.h`, whose names stand in parentheses.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from framebench.devices.catalog import DoesNotFit

MIN_BLOCK = 512  # bytes: every request is rounded up to a multiple (kMinBlockSize)
SMALL = 1 << 20  # the largest request of the small pool (kSmallSize)
SMALL_SEGMENT = 2 << 20  # bytes that the small pool takes from the GPU at once (kSmallBuffer)
# bytes that the large pool takes for a request below MIN_LARGE (kLargeBuffer, large_segment_size)
LARGE_SEGMENT = 20 << 20
MIN_LARGE = 10 << 20  # from here on a request gets a segment of its own size (kMinLargeAlloc)
LARGE_ROUND = 2 << 20  # rounded up to a multiple of this (kRoundLarge)


class OutOfMemory(DoesNotFit):
    """The GPU has no memory for the request, even after every free segment was given back."""

    def __init__(self, requested: int, stats: Stats) -> None:
        """Say how many bytes were requested, and how many are in use and reserved."""
        # programs look for the first sentence, which is PyTorch's
        super().__init__(
            f"CUDA out of memory. {requested:,} bytes do not fit beside {stats.allocated:,} in "
            f"use, {stats.reserved:,} reserved"
        )
        self.requested, self.allocated, self.reserved = requested, stats.allocated, stats.reserved


@dataclass(frozen=True)
class Settings:
    """What the GPU has for the allocator, and an option of `PYTORCH_CUDA_ALLOC_CONF`."""

    limit: int | None = None  # of reserved bytes
    expandable_segments: bool = False


@dataclass
class Stats:
    """Bytes, as `torch.cuda.memory_stats` counts them."""

    allocated: int = 0  # in blocks that are in use
    allocated_peak: int = 0
    requested: int = 0  # the same blocks before rounding
    requested_peak: int = 0
    reserved: int = 0  # taken from the GPU
    reserved_peak: int = 0
    segments: int = 0
    # the same two peaks, since the program last reset them (torch.cuda.reset_peak_memory_stats)
    allocated_peak_since_reset: int = 0
    reserved_peak_since_reset: int = 0
    retries: int = 0  # how often everything cached was given back before the GPU was asked again
    refusals: int = 0  # how often the GPU had no memory even so

    def allocate(self, size: int, requested: int) -> None:
        """Count a block that is handed out."""
        self.allocated += size
        self.requested += requested
        self.allocated_peak = max(self.allocated_peak, self.allocated)
        self.requested_peak = max(self.requested_peak, self.requested)
        self.allocated_peak_since_reset = max(self.allocated_peak_since_reset, self.allocated)

    def reserve(self, size: int) -> None:
        """Count what is taken from the GPU."""
        self.reserved += size
        self.reserved_peak = max(self.reserved_peak, self.reserved)
        self.reserved_peak_since_reset = max(self.reserved_peak_since_reset, self.reserved)

    def reset_peaks(self) -> None:
        """Begin anew with the peaks that the program reads."""
        self.allocated_peak_since_reset = self.allocated
        self.reserved_peak_since_reset = self.reserved


class Event(NamedTuple):
    """One entry of the trace, in the words of `torch.cuda.memory._snapshot`."""

    # alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map,
    # segment_unmap, oom
    action: str
    address: int
    size: int


@dataclass(eq=False, repr=False, slots=True)  # a text of it would name its neighbours, and theirs
class Block:
    """A range of a segment, between its neighbours."""

    address: int
    size: int
    pool: BlockPool
    expandable: bool = False  # its segment grows
    mapped: bool = True  # has memory behind its addresses
    allocated: bool = False
    requested: int = 0
    before: Block | None = None
    after: Block | None = None

    @property
    def is_split(self) -> bool:
        return self.before is not None or self.after is not None

    def splice(self, before: Block | None, after: Block | None) -> None:
        """Put the block between two others."""
        self.before, self.after = before, after
        if before:
            before.after = self
        if after:
            after.before = self

    def split(self, size: int) -> Block:
        """Keep the first `size` bytes, and return a block of the others, its new neighbour."""
        rest = Block(self.address + size, self.size - size, self.pool, self.expandable, self.mapped)
        rest.splice(self, self.after)
        self.size = size
        return rest


get_size = attrgetter("size")
get_size_and_address = attrgetter("size", "address")
get_address = attrgetter("address")


@dataclass(eq=False, slots=True)
class BlockPool:
    """The free blocks of a pool, and the address ranges of its segments that have no memory yet."""

    small: bool
    free: list[Block] = field(default_factory=list)  # by size, then address
    unmapped: list[Block] = field(default_factory=list)  # of expandable segments, by address

    @property
    def page(self) -> int:
        """Return by how many bytes an expandable segment grows."""
        return SMALL_SEGMENT if self.small else LARGE_SEGMENT

    def insert(self, block: Block) -> None:
        """Add a block that is free or has no memory."""
        if block.mapped:
            insort(self.free, block, key=get_size_and_address)
        else:
            insort(self.unmapped, block, key=get_address)

    def remove(self, block: Block) -> None:
        """Remove a block that is free or has no memory."""
        if block.mapped:
            place = bisect_left(self.free, get_size_and_address(block), key=get_size_and_address)
            del self.free[place]
        else:
            self.unmapped.remove(block)


def round_up(size: int, multiple: int) -> int:
    """Return the next multiple that is not less than the size."""
    return -(-size // multiple) * multiple


def compute_segment_size(size: int) -> int:
    """Return the bytes that are asked of the GPU for a block of this size (get_allocation_size)."""
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < MIN_LARGE:
        return LARGE_SEGMENT
    return round_up(size, LARGE_ROUND)
