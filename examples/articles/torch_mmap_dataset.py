"""Article C, a `Dataset` that maps a file into memory, with the article's two methods alone.

`chunk_size`, which the article leaves to its reader, is supplied.
"""

import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

chunk_size = 128
PARTS = 8


class MMapDataset(Dataset):
    def __init__(self, path):
        self.data = np.memmap(path, dtype="float32", mode="r")

    def __getitem__(self, idx):
        return torch.from_numpy(self.data[idx * chunk_size : (idx + 1) * chunk_size])


class WithLength(MMapDataset):
    def __len__(self):
        return len(self.data) // chunk_size


def shuffle(dataset):
    """Return the parts of a loader that draws them at random; None where it raises."""
    try:
        return len(list(DataLoader(dataset, batch_size=None, shuffle=True)))
    except TypeError:
        return None


warnings.simplefilter("ignore")  # of arrays that cannot be written to
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "data"
    np.arange(PARTS * chunk_size, dtype="float32").tofile(file)
    dataset = MMapDataset(file)
    parts = [dataset[idx] for idx in range(PARTS)]
    found = {
        "parts": sum(bool((part[0] == i * chunk_size).item()) for i, part in enumerate(parts)),
        "shuffling_raises": int(shuffle(dataset) is None),
        "parts_with_len": shuffle(WithLength(file)),
    }
print(json.dumps(found))
