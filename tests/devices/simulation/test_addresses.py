"""Where segments lie: chunks from the top down, what is left of them from the bottom up."""

import random

from framebench.devices.simulation.addresses import CHUNK, TOP, Addresses

MIB = 2**20


def test_a_later_segment_lies_lower_unless_a_chunk_has_room():
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


def test_freed_ranges_join_their_neighbours():
    addresses = Addresses()
    first = addresses.take(64 * MIB)
    second = addresses.take(32 * MIB)
    third = addresses.take(96 * MIB)
    addresses.give_back(first, 64 * MIB)
    addresses.give_back(third, 96 * MIB)
    addresses.give_back(second, 32 * MIB)
    assert addresses.free == [(third, 192 * MIB)]
    assert addresses.take(160 * MIB) == third


def test_no_two_ranges_overlap():
    addresses, chance, taken = Addresses(), random.Random(0), {}
    for _ in range(2000):
        if taken and chance.random() < 0.4:
            address = chance.choice(list(taken))
            addresses.give_back(address, taken.pop(address))
        else:
            size = 2 * MIB * chance.randint(1, 40)
            taken[addresses.take(size)] = size
    end = addresses.lowest
    for address, size in sorted([*taken.items(), *addresses.free]):
        assert address == end, "side by side"
        end = address + size
    assert end == TOP, "none is lost"
    assert addresses.lowest % CHUNK == 0
