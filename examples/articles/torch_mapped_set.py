"""Article C, a test set that does not fit: how many of its batches can a process hold at once?

The article prints a class that maps a file into memory, and no number. A process of its own is put
into a control group that may have half of the set's bytes, the pages of files among them. It holds
batch after batch, from a memory-mapped file or from a list of arrays, until the kernel kills it.
That needs the right to make such a group.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

BATCHES, BATCH_BYTES = 64, 2**22  # 256 MiB
# where control groups of memory are made, and the file of their limit: version 1, and version 2
GROUPS = {
    Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes",
    Path("/sys/fs/cgroup"): "memory.max",
}


def make_group():
    """Return a control group that may have half of the set's bytes."""
    for root, name in GROUPS.items():
        group = root / f"framebench-{os.getpid()}"
        if root.is_dir():
            group.mkdir()
            if (group / name).exists():
                (group / name).write_text(str(BATCHES * BATCH_BYTES // 2))
                return group
            group.rmdir()
    raise OSError(f"no control group of memory can be made in {' or '.join(map(str, GROUPS))}")


def hold_batches(way, file, group):
    """Join a control group, and hold batch after batch; print a line for each that is held."""
    mapped = np.memmap(file, np.uint8, "r", shape=(BATCHES, BATCH_BYTES))
    (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    held = []
    for i in range(BATCHES):
        held.append(mapped[i] if way == "mapped" else np.full(BATCH_BYTES, i, np.uint8))
        int(held[-1][::512].sum())  # a byte of every page
        print(i, flush=True)


def count_batches(way, file):
    """Return how many batches a process holds at once."""
    group = make_group()
    command = [sys.executable, "-P", __file__, way, str(file), str(group)]
    done = subprocess.run(command, capture_output=True, text=True)
    group.rmdir()
    return len(done.stdout.splitlines())


def write_set(file):
    """Write the set batch by batch, and leave none of it in the page cache."""
    with file.open("wb") as out:
        for i in range(BATCHES):
            np.full(BATCH_BYTES, i, np.uint8).tofile(out)
        os.fsync(out.fileno())  # what is not written yet cannot be left out of the cache
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if len(sys.argv) > 1:
    hold_batches(*sys.argv[1:])
else:
    with tempfile.TemporaryDirectory(prefix="framebench-") as folder:
        file = Path(folder) / "images"
        write_set(file)
        found = {"batches": BATCHES}
        for way in ("listed", "mapped"):
            found[f"{way}_batches"] = count_batches(way, file)
    print(json.dumps(found))
