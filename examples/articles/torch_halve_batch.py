"""After article C, `try` / `except RuntimeError`, completed: half the batch is tried again.

Memory really runs out: the kernel grants the process no more than half again of what a batch of 16
takes.
"""

import json
import resource
from pathlib import Path

import torch

SAMPLE = 2**22  # numbers, of 16 MiB
FITTING = 16  # samples


def limit_memory():
    """Grant the process half again of what a batch takes that fits."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 3 * FITTING * SAMPLE * 4 // 2
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def model(input_tensor):
    """Stands for a model whose result is as large as its batch."""
    return input_tensor[:, None].expand(-1, SAMPLE) * 2.0


samples = size = 4 * FITTING
data, done, halvings = torch.ones(samples), 0, 0
limit_memory()
while done < samples:
    try:
        with torch.no_grad():
            done += len(model(data[done : done + size]))
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        size //= 2
        halvings += 1
print(json.dumps({"lost": samples - done, "halvings": halvings}))
