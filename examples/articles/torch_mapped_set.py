"""Article C, a test set that does not fit: how many of its batches can a process hold at once?

The article prints a class that maps a file into memory, and no number. A process of its own is put
into a control group that may have half of the set's bytes, the pages of files among them. It holds
batch after batch, from the article's memory-mapped `Dataset` or as a list of tensors, until the
kernel kills it. That needs the right to make such a group. `chunk_size`, which the article leaves
to its reader, is supplied.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

BATCHES, chunk_size = 64, 2**20
BATCH_BYTES = 4 * chunk_size  # 4 MiB in float32, 256 MiB in all
# where control groups of memory are made, and the file of their limit: version 1, and version 2
GROUPS = {
    Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes",
    Path("/sys/fs/cgroup"): "memory.max",
}


class MMapDataset(Dataset):
    def __init__(self, path):
        self.data = np.memmap(path, dtype="float32", mode="r")

    def __getitem__(self, idx):
        return torch.from_numpy(self.data[idx * chunk_size : (idx + 1) * chunk_size])


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
    warnings.simplefilter("ignore")  # of arrays that cannot be written to
    dataset = MMapDataset(file)
    torch.full((1024,), 0.0).sum()  # what PyTorch needs itself is there before the limit
    (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    held = []
    for i in range(BATCHES):
        held.append(dataset[i] if way == "mapped" else torch.full((chunk_size,), float(i)))
        if held[-1][::512].sum() != i * chunk_size / 512:  # reads from every page
            raise ValueError(f"batch {i} is another one")
        print(i, flush=True)


def count_batches(way, file):
    """Return how many batches a process holds at once."""
    group = make_group()
    command = [sys.executable, "-P", __file__, way, str(file), str(group)]
    done = subprocess.run(command, capture_output=True, text=True)
    group.rmdir()
    if done.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{way}: {done.stderr}")
    return len(done.stdout.splitlines())


def write_set(file):
    """Write the set batch by batch, and leave none of it in the page cache."""
    with file.open("wb") as out:
        for i in range(BATCHES):
            np.full(chunk_size, i, np.float32).tofile(out)
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
