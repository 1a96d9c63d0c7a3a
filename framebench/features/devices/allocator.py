"""A model of PyTorch's caching allocator for CUDA: which block a request gets, what is taken from the card, what stays cached.

It follows `c10/cuda/CUDACachingAllocator.cpp` function by function; names in parentheses are those of that file. The rules are
the same in PyTorch 2.6 and 2.13 (where the constants moved to `c10/core/AllocatorConfig.h`). One stream, no CUDA graphs.
Addresses only decide between free blocks of equal size: here a later segment lies higher, on a card the driver decides.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MIN_BLOCK = 512  # bytes: every request is rounded up to a multiple (kMinBlockSize)
SMALL = 1 << 20  # the largest request of the small pool (kSmallSize)
SMALL_SEGMENT = 2 << 20  # what the small pool takes from the card at once (kSmallBuffer)
LARGE_SEGMENT = 20 << 20  # what the large pool takes for a request below MIN_LARGE (kLargeBuffer, large_segment_size)
MIN_LARGE = 10 << 20  # from here on a request gets a segment of its own size (kMinLargeAlloc)
LARGE_ROUND = 2 << 20  # rounded up to a multiple of this (kRoundLarge)


class OutOfMemory(Exception):
    """The card has no room for the request, even after every free segment was given back."""

    def __init__(self, requested: int, stats: Stats) -> None:
        super().__init__(f"{requested:,} bytes do not fit beside {stats.allocated:,} in use, {stats.reserved:,} reserved")
        self.requested, self.allocated, self.reserved = requested, stats.allocated, stats.reserved


@dataclass(frozen=True)
class Settings:
    """Options of `PYTORCH_CUDA_ALLOC_CONF` in bytes, and what the card has for the allocator."""

    limit: int | None = None  # of reserved bytes
    expandable_segments: bool = False
    max_split_size: int | None = None
    max_non_split_rounding: int = LARGE_SEGMENT
    roundup_power2_divisions: int = 0
    garbage_collection_threshold: float = 0.0


@dataclass
class Stats:
    """Bytes, as `torch.cuda.memory_stats` counts them."""

    allocated: int = 0  # in blocks that are in use
    allocated_peak: int = 0
    requested: int = 0  # the same before rounding
    requested_peak: int = 0
    reserved: int = 0  # taken from the card
    reserved_peak: int = 0
    segments: int = 0
    retries: int = 0  # how often everything cached was given back before the card was asked again

    def allocate(self, size: int, requested: int) -> None:
        self.allocated += size
        self.requested += requested
        self.allocated_peak = max(self.allocated_peak, self.allocated)
        self.requested_peak = max(self.requested_peak, self.requested)

    def reserve(self, size: int) -> None:
        self.reserved += size
        self.reserved_peak = max(self.reserved_peak, self.reserved)


class Event(NamedTuple):
    """One entry of the trace, in the words of `torch.cuda.memory._snapshot`."""

    action: str  # alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap, oom
    address: int
    size: int


@dataclass(eq=False, slots=True)
class Block:
    """A range of a segment, between its neighbours."""

    address: int
    size: int
    pool: Pool
    expandable: bool = False  # its segment grows
    mapped: bool = True  # has memory behind its addresses
    allocated: bool = False
    requested: int = 0
    before: Block | None = None
    after: Block | None = None
    age_base: int = 0  # searches of the pool until it was last put there

    @property
    def is_split(self) -> bool:
        return self.before is not None or self.after is not None

    def splice(self, before: Block | None, after: Block | None) -> None:
        """Put it between two blocks."""
        self.before, self.after = before, after
        if before:
            before.after = self
        if after:
            after.before = self


@dataclass(eq=False, slots=True)
class Pool:
    """Free blocks by size, then address; and address ranges of expandable segments that have no memory yet."""

    small: bool
    free: list[tuple[int, int, Block]] = field(default_factory=list)
    unmapped: list[tuple[int, Block]] = field(default_factory=list)
    searches: int = 0

    @property
    def page(self) -> int:
        """By how much an expandable segment grows."""
        return SMALL_SEGMENT if self.small else LARGE_SEGMENT

    def insert(self, block: Block) -> None:
        if block.mapped:
            block.age_base = self.searches
            insort(self.free, (block.size, block.address, block))
        else:
            insort(self.unmapped, (block.address, block))

    def remove(self, block: Block) -> None:
        if block.mapped:
            del self.free[bisect_left(self.free, (block.size, block.address))]  # type: ignore[type-var]
        else:
            del self.unmapped[bisect_left(self.unmapped, (block.address,))]  # type: ignore[arg-type]


def round_size(size: int, divisions: int = 0) -> int:
    """Bytes of the block for a request (round_size)."""
    if size < MIN_BLOCK:
        return MIN_BLOCK
    if divisions > 1 and size > MIN_BLOCK * divisions:
        return _next_division(size, divisions)
    return -(-size // MIN_BLOCK) * MIN_BLOCK


def _next_division(size: int, divisions: int) -> int:
    """The next of so many equal steps between two powers of two (roundup_power2_next_division)."""
    if size & (size - 1) == 0:
        return size
    step = (1 << (size.bit_length() - 1)) >> (divisions.bit_length() - 1)
    return -(-size // step) * step if step else 1 << size.bit_length()


def segment_size(size: int) -> int:
    """Bytes that are asked of the card for a block of this size (get_allocation_size)."""
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < MIN_LARGE:
        return LARGE_SEGMENT
    return -(-size // LARGE_ROUND) * LARGE_ROUND


class Allocator:
    """`malloc` gives a block, `free` takes it back; `stats` and `trace` tell what happened."""

    def __init__(self, settings: Settings = Settings()) -> None:
        self.settings = settings
        self.stats = Stats()
        self.trace: list[Event] = []
        self.pools = {small: Pool(small) for small in (True, False)}
        self.heads: dict[int, Block] = {}  # the first block of each segment, by its address
        self.next_address = 1 << 32

    def malloc(self, requested: int) -> Block:
        """Raises OutOfMemory."""
        size = round_size(requested, self.settings.roundup_power2_divisions)
        pool = self.pools[size <= SMALL]
        block = self._find(pool, size) or self._take(pool, size)
        if block is None:
            self._record("oom", 0, requested)
            raise OutOfMemory(requested, self.stats)
        return self._hand_out(block, size, requested)

    def free(self, block: Block) -> None:
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
        for pool in (self.pools[False], self.pools[True]):
            for _, _, block in list(pool.free):
                if block.expandable:
                    self._unmap(block)
                elif not block.is_split:
                    self._release(block)

    def segments(self) -> Iterator[list[Block]]:
        """Each segment as its blocks, by address; of one that grows each part that has memory."""
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

    def _find(self, pool: Pool, size: int) -> Block | None:
        """The smallest free block that is large enough (get_free_block)."""
        pool.searches += bool(self.settings.limit and self.settings.garbage_collection_threshold)
        at = bisect_left(pool.free, (size, 0))  # type: ignore[type-var]
        if at == len(pool.free):
            return None
        if self.settings.expandable_segments:  # best fit by the size that it can grow to
            while at + 1 < len(pool.free) and _room(pool.free[at + 1][2]) < _room(pool.free[at][2]):
                at += 1
        block = pool.free[at][2]
        most = self.settings.max_split_size
        if most is not None and size < most <= block.size:
            return None
        if most is not None and size >= most and block.size >= size + self.settings.max_non_split_rounding:
            return None
        del pool.free[at]
        return block

    def _take(self, pool: Pool, size: int) -> Block | None:
        """A new segment; if the card is full, once more after giving back what is cached (the chain in malloc)."""
        if self.settings.limit and self.settings.garbage_collection_threshold:
            self._collect(int(self.settings.garbage_collection_threshold * self.settings.limit))
        if block := self._ask(pool, size):
            return block
        if self._release_oversize(pool, size) and (block := self._ask(pool, size)):
            return block
        self.empty_cache()
        self.stats.retries += 1
        return self._ask(pool, size)

    def _ask(self, pool: Pool, size: int) -> Block | None:
        """One request to the card (alloc_block)."""
        if self.settings.expandable_segments:
            return self._grow(pool, size)
        bytes_asked = segment_size(size)
        if self._over_limit(bytes_asked):
            return None
        block = Block(self._address(bytes_asked), bytes_asked, pool)
        self.heads[block.address] = block
        self.stats.reserve(bytes_asked)
        self.stats.segments += 1
        self._record("segment_alloc", block.address, bytes_asked)
        return block

    def _hand_out(self, block: Block, size: int, requested: int) -> Block:
        """Split it if enough remains (should_split, alloc_found_block)."""
        if self._splits(block, size):
            rest = Block(block.address + size, block.size - size, block.pool, block.expandable)
            rest.splice(block, block.after)
            block.size = size
            block.pool.insert(rest)
        block.allocated, block.requested = True, requested
        self.stats.allocate(block.size, requested)
        self._record("alloc", block.address, requested)
        return block

    def _splits(self, block: Block, size: int) -> bool:
        remaining = block.size - size
        if block.pool.small or self.settings.expandable_segments:
            return remaining >= MIN_BLOCK
        return (self.settings.max_split_size is None or size < self.settings.max_split_size) and remaining > SMALL

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
        self.stats.reserved -= block.size
        self.stats.segments -= 1
        self._record("segment_free", block.address, block.size)

    def _release_oversize(self, pool: Pool, size: int) -> bool:
        """Give back the smallest block of at least `max_split_size` that is enough, else the largest until they are enough
        (release_available_cached_blocks)."""
        if self.settings.max_split_size is None:
            return False
        key = max(size, self.settings.max_split_size)
        at = bisect_left(pool.free, (key, 0))  # type: ignore[type-var]
        if at < len(pool.free):
            self._release(pool.free[at][2])
            return True
        released = 0
        while released < key and pool.free and pool.free[-1][0] >= self.settings.max_split_size:
            released += pool.free[-1][0]
            self._release(pool.free[-1][2])
        return released >= key

    def _collect(self, threshold: int) -> None:
        """Give back free segments of the large pool, those first that were passed over most often
        (garbage_collect_cached_blocks)."""
        target, pool = self.stats.reserved - threshold, self.pools[False]
        able = [block for _, _, block in pool.free if not block.is_split]
        while target > 0 and able:
            mean_age = sum(pool.searches - block.age_base for block in able) / len(able)
            old = [block for block in able if pool.searches - block.age_base >= mean_age]
            for block in old:
                target -= block.size
                self._release(block)
            able = [block for block in able if block not in old]

    def _grow(self, pool: Pool, size: int) -> Block | None:
        """Map memory behind the lowest addresses with room for the block (try_allocate_expandable_block)."""
        block = self._room_for(pool, size)
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

    def _room_for(self, pool: Pool, size: int) -> Block:
        """Free or unmapped blocks in a row with enough addresses, else a new segment (find_expandable_block)."""
        for _, block in pool.unmapped:
            first = block.before if block.before and not block.before.allocated else block
            if _addresses(first) >= size:
                return first
        card = self.settings.limit or 1 << 40
        addresses = -(-(card + card // 8) // pool.page) * pool.page
        block = Block(self._address(addresses), addresses, pool, expandable=True, mapped=False)
        self.heads[block.address] = block
        pool.insert(block)
        return block

    def _map(self, block: Block, size: int) -> bool:
        """Put memory behind the first pages of an unmapped block (map_block)."""
        size = -(-size // block.pool.page) * block.pool.page
        if self._over_limit(size):
            return False
        block.pool.remove(block)
        block.mapped = True
        if size < block.size:
            rest = Block(block.address + size, block.size - size, block.pool, expandable=True, mapped=False)
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
        first = start + -(-(block.address - start) // page) * page
        end = start + (block.address + block.size - start) // page * page
        if first >= end:
            return
        pool.remove(block)
        for address, size in ((block.address, first - block.address), (end, block.address + block.size - end)):
            if size:
                rest = Block(address, size, pool, expandable=True)
                rest.splice(*((block.before, block) if address < first else (block, block.after)))
                if address in self.heads:
                    self.heads[address] = rest
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

    def _over_limit(self, more: int) -> bool:
        return self.settings.limit is not None and self.stats.reserved + more > self.settings.limit

    def _address(self, size: int) -> int:
        """Of a new segment."""
        address = self.next_address
        self.next_address += -(-size // LARGE_ROUND) * LARGE_ROUND
        return address

    def _record(self, action: str, address: int, size: int) -> None:
        self.trace.append(Event(action, address, size))


def _room(block: Block) -> int:
    """What it has and what can be mapped right behind it."""
    return block.size + (block.after.size if block.after and not block.after.mapped else 0)


def _addresses(block: Block | None) -> int:
    total = 0
    while block and not block.allocated:
        total += block.size
        block = block.after
    return total
