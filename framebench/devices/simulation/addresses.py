"""Where CUDA's driver puts the segments that PyTorch asks it for.

Of free blocks of one size PyTorch takes the one with the lowest address (BlockComparatorSize), so
the driver's order decides which one is used up, and with it what fits later. NVIDIA documents no
order. This one was read from the addresses in the histories of an H200 (studies/gpu_allocator):
each request is rounded up to whole chunks, later chunks lie lower, and what a request leaves of its
chunks goes to the next one that fits there, the lowest first. How often two segments of one size
lie as they do on the GPU is tested in
`tests/devices/simulation/test_histories.py`. What else the driver keeps between them is not known.
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
        for at, (address, free_size) in enumerate(self.free):
            if free_size >= size:
                rest = (address + size, free_size - size)
                self.free[at : at + 1] = [rest] if free_size > size else []
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
