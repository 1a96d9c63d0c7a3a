import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "reports"))
from torch_reports import measure_peak


def mib():
    return torch.empty(2**20, dtype=torch.uint8)


def step():
    first = mib()
    second = mib()
    del first
    third = mib()
    return second, third


print(measure_peak(step))
