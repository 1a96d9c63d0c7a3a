"""Article C, a `Dataset` that maps a file into memory, with the article's two methods alone."""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class MMapDataset(Dataset):
    def __init__(self, path):
        self.data = np.memmap(path, dtype="float32", mode="r")

    def __getitem__(self, idx):
        # the article sets no chunk_size
        return torch.from_numpy(self.data[idx * chunk_size : (idx + 1) * chunk_size])  # noqa: F821


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "data"
    np.arange(1024, dtype="float32").tofile(file)
    first = MMapDataset(file)[0]
    parts = list(DataLoader(MMapDataset(file), batch_size=None))
print(json.dumps({"parts": len(parts), "first": len(first)}))
