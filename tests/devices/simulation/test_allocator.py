"""The model of PyTorch's allocator: sequences worked out by hand from its source, and what must
hold after any sequence.
"""

from __future__ import annotations

import itertools
from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from framebench.devices.simulation.allocator import Allocator
from framebench.devices.simulation.blocks import (
    Block,
    OutOfMemory,
    Settings,
    compute_segment_size,
)

KIB, MIB = 2**10, 2**20


@pytest.mark.parametrize(
    ("requested", "block"), [(1, 512), (512, 512), (513, 1024), (MIB + 1, MIB + 512)]
)
def test_a_request_is_rounded_up(requested, block):
    assert Allocator().malloc(requested).size == block


@pytest.mark.parametrize(
    ("block", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
        (25 * MIB, 26 * MIB),
    ],
)
def test_segment_sizes_follow_the_allocator(block, segment):
    assert compute_segment_size(block) == segment


def test_a_remainder_of_512_bytes_is_split_off():
    pool = Allocator()
    whole = pool.malloc(1024)
    pool.malloc(512)
    pool.free(whole)
    assert pool.malloc(512).address == whole.address
    assert pool.malloc(512).address == whole.address + 512


def test_streams_share_no_cached_memory():
    pool = Allocator()
    pool.free(pool.malloc(512))
    pool.stream += 1
    pool.malloc(512)
    assert pool.stats.reserved == 4 * MIB


def test_a_remainder_of_a_mebibyte_is_not_split_off():
    """25 MiB + 1 take a segment of 26 MiB; what remains is less than a MiB, so the block is the
    whole segment.
    """
    pool = Allocator()
    block = pool.malloc(25 * MIB + 1)
    assert (block.size, pool.stats.allocated) == (26 * MIB, 26 * MIB)
    pool.free(block)
    again = pool.malloc(25 * MIB - 512)  # 1 MiB and 512 bytes remain, which are split off
    assert (again.size, pool.stats.reserved) == (25 * MIB - 512, 26 * MIB)


def test_the_cache_is_released_before_out_of_memory():
    pool = Allocator(Settings(limit=100 * MIB))
    kept = pool.malloc(40 * MIB)
    cached = pool.malloc(50 * MIB)
    pool.free(cached)
    assert pool.malloc(60 * MIB).size == 60 * MIB
    assert pool.stats.retries == 1
    assert pool.stats.reserved == pool.stats.reserved_peak == 100 * MIB
    with pytest.raises(OutOfMemory, match="2,097,152 bytes do not fit"):
        pool.malloc(2 * MIB)
    assert pool.trace[-1].action == "oom"
    pool.free(kept)
    assert pool.malloc(20 * MIB).address == kept.address


def test_a_growing_segment_takes_pages():
    """The segment of large blocks grows by pages of 20 MiB, that of small blocks by 2 MiB.

    The three pages of the large one after two requests, five MiB a character:

        |1111|1122|222.|
    """
    pool = Allocator(Settings(limit=1000 * MIB, expandable_segments=True))
    first = pool.malloc(30 * MIB)
    assert pool.stats.reserved == 40 * MIB
    second = pool.malloc(25 * MIB)
    assert (second.address - first.address, pool.stats.reserved) == (30 * MIB, 60 * MIB)
    pool.malloc(1)  # a small block
    assert pool.stats.reserved == 62 * MIB
    pool.free(first)
    pool.empty_cache()  # returns the first page; a part of the second is in use
    assert pool.stats.reserved == 42 * MIB
    assert pool.malloc(15 * MIB).address == first.address
    assert pool.stats.reserved == 62 * MIB


SIZES = st.one_of(
    st.integers(1, 4 * KIB),
    st.integers(1, 2 * MIB),
    st.integers(MIB, 40 * MIB),
    st.sampled_from([MIB, 10 * MIB]),
)
ACTIONS = st.lists(st.tuples(SIZES, st.floats(0, 1), st.booleans()), min_size=1, max_size=120)
CONFIGURATIONS = st.builds(
    Settings,
    limit=st.sampled_from([None, 150 * MIB]),
    expandable_segments=st.booleans(),
)


@hypothesis_settings(deadline=None)
@given(ACTIONS, CONFIGURATIONS)
def test_nothing_is_lost_and_nothing_overlaps(actions, configuration):
    pool = Allocator(configuration)
    used = []  # blocks, each with the bytes that were requested
    for size, place, frees in actions:
        if frees and used:
            block, _ = used.pop(int(place * (len(used) - 1)))
            pool.free(block)
        else:
            try:
                used.append((pool.malloc(size), size))
            except OutOfMemory:
                assert configuration.limit
        blocks = list(itertools.chain.from_iterable(pool.segments()))
        check_sums(pool, blocks, used)
        check_neighbours(pool)
        check_no_overlap(blocks)
        check_free_lists(pool, blocks)
    for block, _ in used:
        pool.free(block)
    pool.empty_cache()
    assert (pool.stats.allocated, pool.stats.requested, pool.stats.reserved) == (0, 0, 0)
    assert not pool.heads


def check_sums(pool: Allocator, blocks: list[Block], used: list[tuple[Block, int]]) -> None:
    allocated = requested = 0
    for block, size in used:
        assert block.size >= size
        assert block.size % 512 == 0
        allocated += block.size
        requested += size
    assert (pool.stats.allocated, pool.stats.requested) == (allocated, requested)
    assert pool.stats.reserved == sum(block.size for block in blocks)
    if pool.settings.limit:
        assert pool.stats.reserved_peak <= pool.settings.limit


def check_neighbours(pool: Allocator) -> None:
    """Check that the blocks of a segment lie side by side, and free neighbours are joined."""
    for head in pool.heads.values():
        block = head
        while block.after:
            after = block.after
            assert block.address + block.size == after.address
            assert after.before is block
            both_are_free = not block.allocated and not after.allocated
            if both_are_free:
                assert block.mapped != after.mapped, "else they would be one block"
            block = after


def check_no_overlap(blocks: list[Block]) -> None:
    ordered = sorted(blocks, key=attrgetter("address"))
    for block, after in itertools.pairwise(ordered):
        assert block.address + block.size <= after.address


def check_free_lists(pool: Allocator, blocks: list[Block]) -> None:
    """Check that the lists of free blocks are ordered, and have each free block once."""
    listed = []
    for one in pool.pools.values():
        assert one.free == sorted(one.free, key=attrgetter("size", "address"))
        for block in one.free:
            assert block.pool is one
            listed.append(id(block))
    free = [id(block) for block in blocks if not block.allocated]
    assert sorted(listed) == sorted(free)
