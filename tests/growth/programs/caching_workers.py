"""A loop whose dataset keeps what it read: in each process that loads, and not in this one."""

import torch
from torch.utils.data import DataLoader, Dataset


class Cached(Dataset):
    def __init__(self):
        self.read = {}

    def __len__(self):
        return 100_000

    def __getitem__(self, number):
        self.read[number] = b"x" * 16384
        return torch.full((64,), float(len(self.read[number])))


model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Cached(), batch_size=8, num_workers=2, persistent_workers=True):
    optimizer.zero_grad()
    model(x / 16384).square().mean().backward()
    optimizer.step()
