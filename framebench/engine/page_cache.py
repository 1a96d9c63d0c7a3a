"""Renew the pages of memory that outlive a process: those of the files it maps.

How fast code runs depends on where its pages lie. The kernel keeps them, so that every fresh
process gets the same ones until the file is dropped from its cache: Jittor's evaluation of
ResNet-50 took 0.66 or 0.83 s by the same library, and each process the same until the next time.
Each of two environments has a copy of the library, and their ratio would be off by as much in every
block. So when a block is over, the files that its processes mapped are dropped and read again, in a
second or two: the next block has other pages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

CHUNK = 2**20  # bytes read at once


def list_mapped_files(pid: int) -> set[Path]:
    """Return the files that a process maps, or none if there is no such process."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return set()
    files = set()
    for line in lines:
        fields = line.split(maxsplit=5)  # address, permissions, offset, device, inode, name
        if len(fields) > 5:
            files.add(Path(fields[5]))
    return {path for path in files if path.is_absolute() and path.is_file()}


def renew(files: Iterable[Path]) -> None:
    """Give each file other pages, by dropping it from the kernel's cache and reading it again.

    The file is read here, so that the next block's first process does not read it in its first
    step.
    """
    paths = list(files)
    drop(paths)
    for path in paths:
        with suppress(OSError), path.open("rb", buffering=0) as file:
            # Read in sequence it would be laid out in large pieces, which count as a process's
            # memory when a byte of them is touched: PyTorch's cold peaks by `host.rss` were 17 MiB
            # larger.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            while file.read(CHUNK):
                pass


def drop(files: Iterable[Path]) -> None:
    """Drop the files from the kernel's page cache.

    Pages that a process has mapped stay, and so do files that may not be read.
    """
    for path in files:
        with suppress(OSError), path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
