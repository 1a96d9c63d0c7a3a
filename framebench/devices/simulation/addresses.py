"""Where CUDA's driver puts the segments that PyTorch asks it for.

Among free blocks of one size PyTorch takes the one with the lowest address (BlockComparatorSize).
The driver's order therefore decides which block is used up, and what fits later. NVIDIA documents
no order. This one was read from the addresses in the histories of an H200 (studies/gpu_allocator):
each request is rounded up to whole chunks, and later chunks lie lower. The rest of a request's
chunks goes to the next request that fits there; of several such rests the lowest is taken.
`tests/devices/simulation/test_histories.py` tests how often two segments of one size lie as they do
on the GPU. What else the driver keeps between them is not known.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from framebench.devices.simulation.blocks import round_up

CHUNK = 32 << 20
TOP = 1 << 46


class Addresses:
    """Ranges of a process on a GPU, in bytes."""

    def __init__(self) -> None:
        """Begin with no range taken."""
        self.lowest = TOP  # of the chunks so far
        self.free: list[tuple[int, int]] = []  # address and size, by address

    def take(self, size: int) -> int:
        """Take a range of this size and return its first address."""
        for place, (address, free_size) in enumerate(self.free):
            if free_size > size:
                self.free[place] = (address + size, free_size - size)
                return address
            if free_size == size:
                del self.free[place]
                return address
        # no free range is large enough: whole chunks are added below the lowest
        chunks = round_up(size, CHUNK)
        self.lowest -= chunks
        if chunks > size:
            self.free.insert(0, (self.lowest + size, chunks - size))
        return self.lowest

    def give_back(self, address: int, size: int) -> None:
        """Give back a range that was taken; it joins its free neighbours."""
        after = bisect_left(self.free, (address, 0))
        if after < len(self.free):
            next_address, next_size = self.free[after]
            if next_address == address + size:
                del self.free[after]
                size += next_size
        if after > 0:
            previous_address, previous_size = self.free[after - 1]
            if previous_address + previous_size == address:
                del self.free[after - 1]
                address = previous_address
                size += previous_size
        insort(self.free, (address, size))
