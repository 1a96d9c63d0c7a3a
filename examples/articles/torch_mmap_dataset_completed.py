"""After article C, a `Dataset` that maps a file into memory, with a chunk's size and a length."""

import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

chunk_size = 128


class MMapDataset(Dataset):
    def __init__(self, path):
        self.data = np.memmap(path, dtype="float32", mode="r")

    def __len__(self):
        return len(self.data) // chunk_size

    def __getitem__(self, idx):
        return torch.from_numpy(self.data[idx * chunk_size : (idx + 1) * chunk_size])


warnings.simplefilter("ignore")  # of arrays that cannot be written to
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "data"
    np.arange(1024, dtype="float32").tofile(file)
    parts = list(DataLoader(MMapDataset(file), batch_size=None, shuffle=False))
numbers = torch.cat(parts).sum() == sum(range(1024))
print(json.dumps({"parts": len(parts), "right": int(numbers)}))
