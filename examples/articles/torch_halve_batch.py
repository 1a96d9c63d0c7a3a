"""Article C, `try` / `except RuntimeError`: what is too large is tried again with half the
batch.
"""

import json

import torch

SAMPLES, LIMIT = 64, 16


def forward(batch):
    """Stands for a model that runs out of memory above LIMIT samples."""
    if len(batch) > LIMIT:
        raise torch.OutOfMemoryError("out of memory")
    return batch * 2


data, size, done, tried = torch.arange(SAMPLES), SAMPLES, 0, 0
while done < SAMPLES:
    try:
        tried += 1
        done += len(forward(data[done : done + size]))
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        size //= 2
print(json.dumps({"lost": SAMPLES - done, "halvings": tried - SAMPLES // size}))
