"""By how much reading a data set grows a process: `python -m framebench.claims.probes.inputs`.

Linux; NumPy alone.

The same BYTES of images are read batch by batch, once from arrays in a list, once from a
memory-mapped file. Resident memory (VmRSS) contains the pages of a file that were touched, which
the kernel may take back; private memory (RssAnon) does not. Then a process is put into a control
group that may have half of the data's bytes, with the pages of files in it: how many batches can it
hold at once either way, before the kernel kills it? That needs the right to make such a group.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from framebench.instruments.host import read_status

BATCHES, BATCH_BYTES = 64, 2**22  # 256 MiB
# where control groups of memory are made, and the file of their limit: version 1, and version 2
GROUPS = {
    Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes",
    Path("/sys/fs/cgroup"): "memory.max",
}
Batches = list[np.ndarray] | np.memmap


def touch(batch: np.ndarray) -> int:
    """Read a byte of every page."""
    return int(batch[::512].sum())


def read_memory() -> tuple[int, int]:
    """Return resident bytes, and those of them that no file backs."""
    gc.collect()
    return read_status("VmRSS"), read_status("RssAnon")


def make_batch(rng: np.random.Generator) -> np.ndarray:
    """Return random images."""
    return rng.integers(0, 256, BATCH_BYTES, np.uint8)


def write_batches(rng: np.random.Generator, file: Path) -> None:
    """Write the data set batch by batch, and leave none of it in the page cache."""
    with file.open("wb") as out:
        for _ in range(BATCHES):
            make_batch(rng).tofile(out)
        os.fsync(out.fileno())  # what is not written yet cannot be left out of the cache
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def map_batches(file: Path) -> np.memmap:
    """Return the data set as a memory-mapped file."""
    return np.memmap(file, np.uint8, "r", shape=(BATCHES, BATCH_BYTES))


def read_batches(name: str, batches: Batches, before: tuple[int, int]) -> dict[str, int]:
    """Return what reading added, in bytes."""
    for i in range(BATCHES):
        touch(batches[i])
    resident, private = read_memory()
    return {f"{name}_resident": resident - before[0], f"{name}_private": private - before[1]}


@contextmanager
def make_group(limit_bytes: int) -> Iterator[Path]:
    """Make a control group with this limit of memory for a `with` block. Raises OSError."""
    for root, name in GROUPS.items():
        group = root / f"framebench-{os.getpid()}"
        if not root.is_dir():
            continue
        group.mkdir()
        try:
            if (group / name).exists():
                (group / name).write_text(str(limit_bytes))
                yield group
                return
        finally:
            group.rmdir()
    raise OSError(f"no control group of memory can be made in {' or '.join(map(str, GROUPS))}")


def hold_batches(name: str, file: Path, group: Path) -> None:
    """Join a control group, and hold batch after batch; print a line for each that is held."""
    rng = np.random.default_rng(0)
    mapped = map_batches(file)
    (group / "cgroup.procs").write_text(str(os.getpid()))
    held = []
    for i in range(BATCHES):
        held.append(mapped[i] if name == "mapped" else make_batch(rng))
        touch(held[-1])
        print(i, flush=True)


def count_batches(name: str, file: Path) -> int:
    """Return how many batches a process holds at once within half of their bytes."""
    with make_group(BATCHES * BATCH_BYTES // 2) as group:
        command = [sys.executable, "-P", "-m", "framebench.claims.probes.inputs"]
        done = subprocess.run(
            [*command, name, str(file), str(group)], capture_output=True, text=True
        )
    return len(done.stdout.splitlines())


def measure(folder: Path) -> dict[str, int]:
    """Return the numbers of a data set as a list of arrays and as a memory-mapped file."""
    rng = np.random.default_rng(0)
    file = folder / "images"
    before = read_memory()
    listed = [make_batch(rng) for _ in range(BATCHES)]
    numbers = read_batches("listed", listed, before)
    del listed
    write_batches(rng, file)
    numbers["batches"] = BATCHES
    for name in ("listed", "mapped"):
        numbers[f"{name}_batches"] = count_batches(name, file)
    before = read_memory()
    return numbers | read_batches("mapped", map_batches(file), before)


def main() -> None:
    """Measure, or hold batches in a control group, as the arguments say."""
    if len(sys.argv) > 1:
        hold_batches(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
        return
    with tempfile.TemporaryDirectory(prefix="framebench-") as scratch:
        print(json.dumps(measure(Path(scratch))))


if __name__ == "__main__":
    main()
