"""Model PyTorch's caching allocator for CUDA.

It decides which block a request gets, what is taken from the GPU, and what stays cached.
It follows `c10/cuda/CUDACachingAllocator.cpp` function by function; names in parentheses are those
of that file. The rules are the same in PyTorch 2.6 and 2.13 (where the constants moved to
`c10/core/AllocatorConfig.h`). No CUDA graphs. Each stream has pools of its own, and a block goes
back at once to that of the stream which asked for it: `record_stream` is not modelled. Addresses
decide between free blocks of equal size: `addresses.py` says where segments lie.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter

from framebench.devices.simulation.addresses import Addresses
from framebench.devices.simulation.blocks import (
    MIN_BLOCK,
    SMALL,
    Block,
    BlockPool,
    Event,
    OutOfMemory,
    Settings,
    Stats,
    compute_segment_size,
    get_size,
    round_up,
)

DEFAULT_STREAM = 0


class Allocator:
    """PyTorch's caching allocator: `malloc` returns a block, and `free` takes it back.

    `stats` has the bytes so far, `trace` has each allocation and release.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        """Begin with no memory taken, and pools only for the default stream."""
        self.settings = settings or Settings()
        self.stats = Stats()
        self.trace: list[Event] = []
        self.stream = DEFAULT_STREAM  # the stream that asks for memory
        # by stream, and whether it is the pool of small blocks
        self.pools = {(DEFAULT_STREAM, small): BlockPool(small) for small in (True, False)}
        self.heads: dict[int, Block] = {}  # the first block of each segment, by its address
        self.addresses = Addresses()

    def malloc(self, requested: int) -> Block:
        """Return a block for so many bytes. Raises OutOfMemory."""
        size = max(round_up(requested, MIN_BLOCK), MIN_BLOCK)  # (round_size)
        small = size <= SMALL
        pool = self.pools.setdefault((self.stream, small), BlockPool(small))
        block = self._take_free_block(pool, size) or self._add_segment(pool, size)
        if block is None:
            self.stats.refusals += 1
            self._record("oom", 0, requested)
            raise OutOfMemory(requested, self.stats)
        return self._hand_out(block, size, requested)

    def free(self, block: Block) -> None:
        """Take a block back, and let it join its free neighbours."""
        block.allocated = False
        self.stats.allocated -= block.size
        self.stats.requested -= block.requested
        self._record("free_requested", block.address, block.requested)
        self._record("free_completed", block.address, block.requested)
        for neighbour in (block.before, block.after):
            self._merge(block, neighbour)
        block.pool.insert(block)

    def empty_cache(self) -> None:
        """Give every segment back that has no block in use (release_cached_blocks)."""
        # those of large blocks first
        for pool in sorted(self.pools.values(), key=attrgetter("small")):
            for block in list(pool.free):
                if block.expandable:
                    self._unmap(block)
                elif not block.is_split:
                    self._release(block)

    def segments(self) -> Iterator[list[Block]]:
        """Yield the blocks of each segment, by address.

        An expandable segment gives a list for each part that has memory.
        """
        for _, head in sorted(self.heads.items()):
            run: list[Block] = []
            block: Block | None = head
            while block:
                if block.mapped:
                    run.append(block)
                elif run:
                    yield run
                    run = []
                block = block.after
            if run:
                yield run

    def _take_free_block(self, pool: BlockPool, size: int) -> Block | None:
        """Remove and return the smallest free block that is large enough (get_free_block)."""
        place = bisect_left(pool.free, size, key=get_size)
        if place == len(pool.free):
            return None
        if self.settings.expandable_segments:  # the smallest by the size that it can grow to
            for next_place in range(place + 1, len(pool.free)):
                next_size = _measure_growable(pool.free[next_place])
                if next_size >= _measure_growable(pool.free[place]):
                    break
                place = next_place
        return pool.free.pop(place)

    def _add_segment(self, pool: BlockPool, size: int) -> Block | None:
        """Return the block of a new segment, or None if the GPU is full (the chain in malloc).

        Before it is None, all cached segments are given back and the GPU is asked again.
        """
        block = self._ask_gpu(pool, size)
        if block is None:
            self.empty_cache()
            self.stats.retries += 1
            block = self._ask_gpu(pool, size)
        return block

    def _ask_gpu(self, pool: BlockPool, size: int) -> Block | None:
        """Return the block of a new segment, or None if it exceeds the limit (alloc_block)."""
        if self.settings.expandable_segments:
            return self._grow(pool, size)
        segment_bytes = compute_segment_size(size)
        if self._exceeds_limit(segment_bytes):
            return None
        block = Block(self.addresses.take(segment_bytes), segment_bytes, pool)
        self.heads[block.address] = block
        self.stats.reserve(segment_bytes)
        self.stats.segments += 1
        self._record("segment_alloc", block.address, segment_bytes)
        return block

    def _hand_out(self, block: Block, size: int, requested: int) -> Block:
        """Mark a block as allocated, and split it if enough remains (alloc_found_block)."""
        if self._should_split(block, size):
            block.pool.insert(block.split(size))
        block.allocated, block.requested = True, requested
        self.stats.allocate(block.size, requested)
        self._record("alloc", block.address, requested)
        return block

    def _should_split(self, block: Block, size: int) -> bool:
        """Return whether the rest of a block becomes a block of its own (should_split)."""
        remaining = block.size - size
        if block.pool.small or self.settings.expandable_segments:
            return remaining >= MIN_BLOCK
        return remaining > SMALL

    def _merge(self, block: Block, other: Block | None) -> None:
        """Let a free neighbour become part of the block (try_merge_blocks)."""
        if other is None or other.allocated or other.mapped != block.mapped:
            return
        other.pool.remove(other)
        if other is block.before:
            if other.address in self.heads:
                self.heads[other.address] = block
            block.address = other.address
            block.splice(other.before, block.after)
        else:
            block.splice(block.before, other.after)
        block.size += other.size

    def _release(self, block: Block) -> None:
        """Give a segment back (release_block)."""
        block.pool.remove(block)
        del self.heads[block.address]
        self.addresses.give_back(block.address, block.size)
        self.stats.reserved -= block.size
        self.stats.segments -= 1
        self._record("segment_free", block.address, block.size)

    def _grow(self, pool: BlockPool, size: int) -> Block | None:
        """Return a block at the lowest addresses where it fits, with memory mapped behind them.

        Returns None if the GPU is full. It is a port of `try_allocate_expandable_block`.
        """
        block = self._find_expandable_block(pool, size)
        if not block.mapped and not self._map(block, min(block.size, size)):
            return None
        while block.size < size:
            follower = block.after
            assert follower
            if not self._map(follower, min(size - block.size, follower.size)):
                return None
            block = follower
        pool.remove(block)
        return block

    def _find_expandable_block(self, pool: BlockPool, size: int) -> Block:
        """Return the first of several neighbours, free or unmapped, that are long enough together.

        Without such neighbours it is the block of a new segment. A port of `find_expandable_block`.
        """
        for block in pool.unmapped:
            first = block
            if block.before and not block.before.allocated:
                first = block.before
            if _sum_free_bytes(first) >= size:
                return first
        memory = self.settings.limit or 1 << 40
        addresses = round_up(memory + memory // 8, pool.page)
        block = Block(
            self.addresses.take(addresses), addresses, pool, expandable=True, mapped=False
        )
        self.heads[block.address] = block
        pool.insert(block)
        return block

    def _map(self, block: Block, size: int) -> bool:
        """Put memory behind the first pages of an unmapped block (map_block)."""
        size = round_up(size, block.pool.page)
        if self._exceeds_limit(size):
            return False
        block.pool.remove(block)
        if size < block.size:
            block.pool.insert(block.split(size))
        block.mapped = True
        self.stats.reserve(size)
        self._record("segment_map", block.address, size)
        self._merge(block, block.before)
        self._merge(block, block.after)
        block.pool.insert(block)
        return True

    def _unmap(self, block: Block) -> None:
        """Give back the pages that lie wholly in a free block (unmap_block)."""
        pool, page = block.pool, block.pool.page
        start = max(head for head in self.heads if head <= block.address)
        first = start + round_up(block.address - start, page)
        end = start + (block.address + block.size - start) // page * page
        if first >= end:
            return
        pool.remove(block)
        if block.address < first:
            pages = block.split(first - block.address)
            pool.insert(block)
            block = pages
        if end < block.address + block.size:
            pool.insert(block.split(end - block.address))
        block.mapped = False
        self.stats.reserved -= block.size
        self._record("segment_unmap", block.address, block.size)
        self._merge(block, block.before)
        self._merge(block, block.after)
        if block.is_split:
            pool.insert(block)
        else:
            del self.heads[block.address]  # release_expandable_segment
            self.addresses.give_back(block.address, block.size)

    def _exceeds_limit(self, more: int) -> bool:
        """Return whether so many more bytes would exceed the limit of reserved ones."""
        return self.settings.limit is not None and self.stats.reserved + more > self.settings.limit

    def _record(self, action: str, address: int, size: int) -> None:
        self.trace.append(Event(action, address, size))


def _measure_growable(block: Block) -> int:
    """Return the bytes of a block and of what can be mapped right behind it."""
    if block.after and not block.after.mapped:
        return block.size + block.after.size
    return block.size


def _sum_free_bytes(block: Block | None) -> int:
    """Return the bytes of this block and its followers, up to the first that is allocated."""
    total = 0
    while block and not block.allocated:
        total += block.size
        block = block.after
    return total
