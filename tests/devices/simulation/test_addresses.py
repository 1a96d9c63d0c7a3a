"""Where segments lie: chunks from the top down, what is left of them from the bottom up."""

from __future__ import annotations

import random

from framebench.devices.simulation.addresses import CHUNK, TOP, Addresses
from framebench.devices.simulation.allocator import Allocator

MIB = 2**20


def test_a_later_segment_lies_lower_unless_a_chunk_has_room() -> None:
    """As an H200 put two of 98 MiB, then two of 26 and one of 2: each of 26 where one of 98 left
    30, the lower first.
    """
    addresses = Addresses()
    taken = [addresses.take(size * MIB) for size in (98, 98, 26, 26, 2, 26)]
    assert [(TOP - address) // MIB for address in taken] == [
        128,
        256,
        256 - 98,
        128 - 98,
        256 - 124,
        256 + 32,
    ]


def test_freed_ranges_are_reused() -> None:
    addresses = Addresses()
    first, second, third = (addresses.take(size * MIB) for size in (64, 32, 96))
    addresses.give_back(first, 64 * MIB)
    addresses.give_back(third, 96 * MIB)
    assert addresses.free == [(third, 96 * MIB), (first, 64 * MIB)]
    addresses.give_back(second, 32 * MIB)
    assert addresses.free == [(third, 192 * MIB)]
    assert addresses.take(160 * MIB) == third


def test_no_two_ranges_overlap() -> None:
    addresses, chance, taken = Addresses(), random.Random(0), {}
    for _ in range(2000):
        if taken and chance.random() < 0.4:
            address = chance.choice(list(taken))
            addresses.give_back(address, taken.pop(address))
        else:
            size = 2 * MIB * chance.randint(1, 40)
            taken[addresses.take(size)] = size
    ranges = sorted([*taken.items(), *addresses.free])
    assert all(
        address + size <= other
        for (address, size), (other, _) in zip(ranges, ranges[1:], strict=False)
    )
    assert sum(size for _, size in ranges) == TOP - addresses.lowest, "none is lost"
    assert addresses.lowest % CHUNK == 0


def test_of_equal_free_blocks_that_of_the_later_segment_is_used_first() -> None:
    """What was found on a card: the order decides which of two segments stays whole."""
    pool = Allocator()
    first, second = pool.malloc(40 * MIB), pool.malloc(40 * MIB)
    lower = min(first.address, second.address)
    assert lower == second.address
    pool.free(first)
    pool.free(second)
    assert pool.malloc(12 * MIB).address == lower
    assert pool.malloc(40 * MIB).address == first.address


def test_a_freed_segment_is_replaced_in_place() -> None:
    pool = Allocator()
    first, second = pool.malloc(40 * MIB), pool.malloc(40 * MIB)
    lowest = pool.addresses.lowest
    pool.free(first)
    pool.empty_cache()
    assert pool.malloc(40 * MIB).address > second.address
    assert pool.addresses.lowest == lowest
