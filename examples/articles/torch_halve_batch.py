"""After article C, `try` / `except RuntimeError`, completed: half of what failed is tried again.

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


def evaluate(batch):
    """Return which samples have an output: half the batch is tried where the whole one fails."""
    try:
        with torch.no_grad():
            return (model(batch)[:, 0] == 2 * batch).tolist()
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
    if len(batch) == 1:
        return [False]
    halved.append(len(batch))
    first, second = batch.chunk(2)
    return evaluate(first) + evaluate(second)


halved = []
batches = [torch.ones(size) for size in (FITTING, 2 * FITTING, FITTING)]
limit_memory()
answered = [sum(evaluate(batch)) for batch in batches]
lost = sum(map(len, batches)) - sum(answered)
print(json.dumps({"lost": lost, "halvings": len(halved)}))
