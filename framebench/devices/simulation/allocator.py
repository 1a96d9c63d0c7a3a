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
    round_size,
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
        size = round_size(requested, self.settings.roundup_power2_divisions)
        pool = self._get_pool(size <= SMALL)
        block = self._take_free_block(pool, size) or self._add_segment(pool, size)
        if block is None:
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
        for pool in (*self._list_pools(small=False), *self._list_pools(small=True)):
            for _, _, block in list(pool.free):
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

    @property
    def _collects_garbage(self) -> bool:
        """Return whether free segments are given back before the GPU is full."""
        return bool(self.settings.limit and self.settings.garbage_collection_threshold)

    def _get_pool(self, small: bool) -> BlockPool:
        """Return the pool of the current stream, which its first request makes."""
        return self.pools.setdefault((self.stream, small), BlockPool(small))

    def _list_pools(self, small: bool) -> list[BlockPool]:
        """Return the pools of small or of large blocks, of every stream."""
        return [pool for (_, is_small), pool in self.pools.items() if is_small == small]

    def _take_free_block(self, pool: BlockPool, size: int) -> Block | None:
        """Remove and return the smallest free block that is large enough (get_free_block)."""
        if self._collects_garbage:
            pool.searches += 1
        place = bisect_left(pool.free, (size, 0))  # type: ignore[type-var]
        if place == len(pool.free):
            return None
        if self.settings.expandable_segments:  # the smallest by the size that it can grow to
            for next_place in range(place + 1, len(pool.free)):
                next_size = _measure_growable(pool.free[next_place][2])
                if next_size >= _measure_growable(pool.free[place][2]):
                    break
                place = next_place
        block = pool.free[place][2]
        max_split = self.settings.max_split_size
        if max_split is not None:
            # an oversize block is not split: it is only for requests of nearly its own size
            if size < max_split <= block.size:
                return None
            if size >= max_split and block.size >= size + self.settings.max_non_split_rounding:
                return None
        del pool.free[place]
        return block

    def _add_segment(self, pool: BlockPool, size: int) -> Block | None:
        """Return the block of a new segment, or None if the GPU is full (the chain in malloc).

        Before it is None, all cached segments are given back and the GPU is asked again.
        """
        if self.settings.limit and self.settings.garbage_collection_threshold:
            self._collect(int(self.settings.garbage_collection_threshold * self.settings.limit))
        block = self._ask_gpu(pool, size)
        if block is None and self._release_oversize(pool, size):
            block = self._ask_gpu(pool, size)
        if block is not None:
            return block
        self.empty_cache()
        self.stats.retries += 1
        return self._ask_gpu(pool, size)

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
            rest = Block(block.address + size, block.size - size, block.pool, block.expandable)
            rest.splice(block, block.after)
            block.size = size
            block.pool.insert(rest)
        block.allocated, block.requested = True, requested
        self.stats.allocate(block.size, requested)
        self._record("alloc", block.address, requested)
        return block

    def _should_split(self, block: Block, size: int) -> bool:
        """Return whether the rest of a block becomes a block of its own (should_split)."""
        remaining = block.size - size
        if block.pool.small or self.settings.expandable_segments:
            return remaining >= MIN_BLOCK
        max_split = self.settings.max_split_size
        is_oversize = max_split is not None and size >= max_split
        return not is_oversize and remaining > SMALL

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

    def _release_oversize(self, pool: BlockPool, size: int) -> bool:
        """Give back oversize blocks until a request fits, and return whether it does.

        The smallest block of at least `max_split_size` that is enough is given back, or else the
        largest ones (release_available_cached_blocks).
        """
        max_split = self.settings.max_split_size
        if max_split is None:
            return False
        needed = max(size, max_split)
        place = bisect_left(pool.free, (needed, 0))  # type: ignore[type-var]
        if place < len(pool.free):
            self._release(pool.free[place][2])
            return True
        released = 0
        while released < needed and pool.free:
            largest_size, _, largest = pool.free[-1]
            if largest_size < max_split:
                break
            self._release(largest)
            released += largest_size
        return released >= needed

    def _collect(self, threshold: int) -> None:
        """Give back free segments of large blocks while more than `threshold` bytes are reserved.

        Each turn gives back those that requests have passed over at least as often as the mean one.
        A port of `garbage_collect_cached_blocks`.
        """
        while self.stats.reserved > threshold:
            segments = self._list_free_large_segments()
            if not segments:
                return
            mean_age = sum(segment.age for segment in segments) / len(segments)
            for segment in segments:
                if segment.age >= mean_age:
                    self._release(segment)

    def _list_free_large_segments(self) -> list[Block]:
        """Return the segments of large blocks, of every stream, that have no block in use."""
        segments = []
        for pool in self._list_pools(small=False):
            for _, _, block in pool.free:
                if not block.is_split:
                    segments.append(block)
        return segments

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
        for _, block in pool.unmapped:
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
        block.mapped = True
        if size < block.size:
            rest = Block(
                block.address + size, block.size - size, block.pool, expandable=True, mapped=False
            )
            rest.splice(block, block.after)
            block.size = size
            block.pool.insert(rest)
        self.stats.reserve(size)
        self._record("segment_map", block.address, size)
        self._merge(block, block.before)
        self._merge(block, block.after)
        block.pool.insert(block)
        return True

    def _unmap(self, block: Block) -> None:
        """Give back the pages that lie wholly in a free block (unmap_block)."""
        pool, page = block.pool, block.pool.page
        start = next(head for head in sorted(self.heads, reverse=True) if head <= block.address)
        first = start + round_up(block.address - start, page)
        end = start + (block.address + block.size - start) // page * page
        if first >= end:
            return
        pool.remove(block)
        if block.address < first:
            rest = Block(block.address, first - block.address, pool, expandable=True)
            rest.splice(block.before, block)
            if rest.address in self.heads:
                self.heads[rest.address] = rest
            pool.insert(rest)
        if end < block.address + block.size:
            rest = Block(end, block.address + block.size - end, pool, expandable=True)
            rest.splice(block, block.after)
            pool.insert(rest)
        block.address, block.size, block.mapped = first, end - first, False
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
