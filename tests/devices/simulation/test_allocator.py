"""The model of PyTorch's allocator: sequences worked out by hand from its source, and what must
hold after any sequence.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from framebench.devices.simulation import blocks
from framebench.devices.simulation.allocator import Allocator
from framebench.devices.simulation.blocks import (
    Block,
    OutOfMemory,
    Settings,
    round_size,
    segment_size,
)

KIB, MIB = 2**10, 2**20


@pytest.mark.parametrize(
    ("requested", "block"),
    [(1, 512), (511, 512), (512, 512), (513, 1024), (MIB, MIB), (MIB + 1, MIB + 512)],
)
def test_a_request_is_rounded_up_to_512_bytes(requested: int, block: int) -> None:
    assert round_size(requested) == block


@pytest.mark.parametrize(
    ("requested", "rounded"),
    [(1200, 1536), (5000, 5120), (5121, 6144), (4096, 4096), (9000, 10240)],
)
def test_a_request_is_rounded_up_to_a_division_of_a_power_of_two(
    requested: int, rounded: int
) -> None:
    """Four between two powers; a request of up to four blocks is rounded as ever."""
    assert round_size(requested, divisions=4) == rounded


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
def test_segment_sizes_follow_the_allocator(block: int, segment: int) -> None:
    assert segment_size(block) == segment


def test_small_requests_share_a_segment() -> None:
    pool = Allocator()
    blocks = [pool.malloc(1000) for _ in range(2048)]
    assert (pool.stats.reserved, pool.stats.allocated, pool.stats.requested) == (
        2 * MIB,
        2 * MIB,
        2_048_000,
    )
    pool.malloc(1)
    assert pool.stats.reserved == 4 * MIB
    assert [b.address - blocks[0].address for b in blocks[:3]] == [0, 1024, 2048]


def test_a_remainder_of_a_mebibyte_is_not_split_off() -> None:
    """25 MiB + 1 take a segment of 26 MiB; what remains is less than a MiB, so the block is the
    whole segment.
    """
    pool = Allocator()
    block = pool.malloc(25 * MIB + 1)
    assert (block.size, pool.stats.allocated) == (26 * MIB, 26 * MIB)
    pool.free(block)
    again = pool.malloc(25 * MIB - 512)  # 1 MiB and 512 bytes remain, which are split off
    assert (again.size, pool.stats.reserved) == (25 * MIB - 512, 26 * MIB)


def test_the_smallest_block_that_is_large_enough_is_taken() -> None:
    pool = Allocator()
    large, small, least = (pool.malloc(size * MIB) for size in (40, 30, 20))
    for block in (large, small, least):
        pool.free(block)
    assert pool.malloc(28 * MIB).address == small.address
    assert pool.malloc(15 * MIB).address == least.address
    assert pool.malloc(5 * MIB).address == least.address + 15 * MIB
    assert pool.stats.reserved == 90 * MIB


def test_neighbours_become_one_block_again() -> None:
    pool = Allocator()
    first, second, third = (pool.malloc(5 * MIB) for _ in range(3))  # of one segment of 20 MiB
    pool.free(first)
    pool.free(third)
    assert sorted(size for size, _, _ in pool.pools[0, False].free) == [5 * MIB, 10 * MIB]
    pool.free(second)
    assert [size for size, _, _ in pool.pools[0, False].free] == [20 * MIB]
    pool.empty_cache()
    assert (pool.stats.reserved, pool.stats.segments) == (0, 0)


def test_the_cache_is_released_before_out_of_memory() -> None:
    pool = Allocator(Settings(limit=100 * MIB))
    kept, cached = pool.malloc(40 * MIB), pool.malloc(50 * MIB)
    pool.free(cached)
    assert pool.malloc(60 * MIB).size == 60 * MIB
    assert (pool.stats.retries, pool.stats.reserved, pool.stats.reserved_peak) == (
        1,
        100 * MIB,
        100 * MIB,
    )
    with pytest.raises(OutOfMemory, match="2,097,152 bytes do not fit"):
        pool.malloc(2 * MIB)
    assert pool.trace[-1].action == "oom"
    pool.free(kept)
    assert pool.malloc(20 * MIB).address == kept.address


def test_a_segment_with_a_block_in_use_stays() -> None:
    pool = Allocator(Settings(limit=24 * MIB))
    _, freed = pool.malloc(5 * MIB), pool.malloc(5 * MIB)
    pool.free(freed)
    with pytest.raises(OutOfMemory):
        pool.malloc(16 * MIB)
    assert pool.stats.reserved == 20 * MIB


def test_large_blocks_are_not_split_beyond_the_limit_of_the_setting() -> None:
    pool = Allocator(Settings(max_split_size=100 * MIB))
    pool.free(pool.malloc(200 * MIB))
    assert pool.malloc(50 * MIB).size == 50 * MIB  # not out of the block of 200 MiB
    assert pool.stats.reserved == 250 * MIB
    assert pool.malloc(181 * MIB).size == 200 * MIB  # less than 20 MiB too large
    pool.free(pool.malloc(150 * MIB))
    assert pool.malloc(120 * MIB).size == 120 * MIB  # 30 MiB too large
    assert pool.stats.reserved == 520 * MIB


def test_oversize_blocks_go_back_before_the_cache() -> None:
    """The smallest that is enough; the free block of 10 MiB stays."""
    pool = Allocator(Settings(limit=300 * MIB, max_split_size=100 * MIB))
    blocks = [pool.malloc(size * MIB) for size in (160, 120, 10)]
    for block in blocks:
        pool.free(block)
    pool.malloc(60 * MIB)
    assert (pool.stats.retries, pool.stats.reserved) == (0, (160 + 10 + 60) * MIB)


def test_the_collector_releases_old_blocks() -> None:
    pool = Allocator(Settings(limit=100 * MIB, garbage_collection_threshold=0.5))
    old = pool.malloc(30 * MIB)
    pool.free(old)
    # one search passes over the free block, and does not find it large enough
    young = pool.malloc(40 * MIB)
    assert pool.stats.reserved == 70 * MIB
    pool.free(young)
    pool.malloc(44 * MIB)
    assert pool.stats.reserved == 44 * MIB + 40 * MIB


def test_a_growing_segment_takes_pages() -> None:
    """Pages of 20 MiB for the large pool, of 2 MiB for the small, and no request has a segment of
    its own.
    """
    pool = Allocator(Settings(limit=1000 * MIB, expandable_segments=True))
    first = pool.malloc(30 * MIB)
    assert pool.stats.reserved == 40 * MIB
    second = pool.malloc(25 * MIB)  # 10 MiB are there; 15 MiB need one more page
    assert (second.address - first.address, pool.stats.reserved) == (30 * MIB, 60 * MIB)
    pool.malloc(1)
    assert pool.stats.reserved == 62 * MIB
    pool.free(first)
    pool.empty_cache()  # the first page is free, the second holds a part of the other block
    assert pool.stats.reserved == 42 * MIB
    assert pool.malloc(15 * MIB).address == first.address
    assert pool.stats.reserved == 62 * MIB


def test_a_wrong_rounding_changes_reserved_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,096 requests of 512 bytes fill one segment of 2 MiB; rounded to 1,024 bytes they fill
    two.
    """

    def reserved() -> int:
        pool = Allocator()
        for _ in range(4096):
            pool.malloc(512)
        return pool.stats.reserved

    assert reserved() == 2 * MIB
    monkeypatch.setattr(blocks, "MIN_BLOCK", 1024)
    assert reserved() == 4 * MIB


def test_a_wrong_segment_size_changes_reserved_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of 6 MiB takes 20 MiB, and two more fit beside it; at 8 MiB none does."""

    def reserved() -> int:
        pool = Allocator()
        for _ in range(3):
            pool.malloc(6 * MIB)
        return pool.stats.reserved

    assert reserved() == 20 * MIB
    monkeypatch.setattr(blocks, "LARGE_SEGMENT", 8 * MIB)
    assert reserved() == 24 * MIB


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
    max_split_size=st.sampled_from([None, 20 * MIB]),
    roundup_power2_divisions=st.sampled_from([0, 4]),
    garbage_collection_threshold=st.sampled_from([0.0, 0.6]),
)


@hypothesis_settings(deadline=None)
@given(ACTIONS, CONFIGURATIONS)
def test_nothing_is_lost_and_nothing_overlaps(
    actions: list[tuple[int, float, bool]], configuration: Settings
) -> None:
    pool = Allocator(configuration)
    used: list[tuple[Block, int]] = []
    for size, place, frees in actions:
        if frees and used:
            pool.free(used.pop(int(place * (len(used) - 1)))[0])
        else:
            try:
                used.append((pool.malloc(size), size))
            except OutOfMemory:
                assert configuration.limit
        check_invariants(pool, used)
    for block, _ in used:
        pool.free(block)
    pool.empty_cache()
    assert (pool.stats.allocated, pool.stats.requested, pool.stats.reserved, pool.heads) == (
        0,
        0,
        0,
        {},
    )


def check_invariants(pool: Allocator, used: list[tuple[Block, int]]) -> None:
    """Check that bytes add up, that blocks lie side by side, and that each free block is in its
    pool.

    `used` has the blocks in use with the bytes that were requested.
    """
    blocks = list(itertools.chain.from_iterable(pool.segments()))
    check_sums(pool, blocks, used)
    check_addresses(pool, blocks)
    check_free_lists(pool, blocks)


def check_sums(pool: Allocator, blocks: list[Block], used: list[tuple[Block, int]]) -> None:
    stats = pool.stats
    assert stats.reserved == sum(block.size for block in blocks)
    assert stats.allocated == sum(block.size for block, _ in used)
    assert stats.requested == sum(size for _, size in used)
    assert stats.requested <= stats.allocated <= stats.reserved
    if pool.settings.limit:
        assert stats.reserved_peak <= pool.settings.limit
    for block, size in used:
        assert block.size >= size
        assert block.size % 512 == 0


def check_addresses(pool: Allocator, blocks: list[Block]) -> None:
    for head in pool.heads.values():
        side_by_side(list(chain(head)))
    ordered = sorted(blocks, key=lambda block: block.address)
    for one, other in itertools.pairwise(ordered):
        assert one.address + one.size <= other.address


def check_free_lists(pool: Allocator, blocks: list[Block]) -> None:
    in_lists = []
    for one in pool.pools.values():
        assert one.free == sorted(one.free, key=lambda entry: entry[:2])
        for size, address, block in one.free:
            assert (size, address) == (block.size, block.address)
            assert block.pool is one
            in_lists.append(id(block))
    assert sorted(in_lists) == sorted(id(block) for block in blocks if not block.allocated)


def chain(block: Block | None) -> Iterator[Block]:
    while block:
        yield block
        block = block.after


def side_by_side(blocks: list[Block]) -> None:
    for one, other in itertools.pairwise(blocks):
        assert one.address + one.size == other.address
        assert other.before is one
        assert one.allocated or other.allocated or one.mapped != other.mapped
