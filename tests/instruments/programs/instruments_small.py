"""By how many bytes small regions of known size are misread."""

import json
import mmap

from framebench.instruments.host import HostPeak

MIB = 2**20


def misread(size):
    host = HostPeak()
    host.start()
    with mmap.mmap(-1, size) as region:
        for at in range(0, size, mmap.PAGESIZE):
            region[at] = 1
    return host.measure_growth() - size


print(json.dumps([misread(size) for size in (MIB, 4 * MIB, 16 * MIB) for _ in range(5)]))
