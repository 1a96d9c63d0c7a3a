"""Article C, `try` / `except RuntimeError`: an out-of-memory error is caught, and passed over."""

import json

import torch

SAMPLES, LIMIT = 64, 16


def model(input_tensor):
    """Stands for a model that runs out of memory above LIMIT samples."""
    if len(input_tensor) > LIMIT:
        raise torch.OutOfMemoryError("CUDA out of memory")
    return input_tensor * 2


done = 0
batches = [torch.arange(LIMIT), torch.arange(2 * LIMIT), torch.arange(LIMIT)]
for input_tensor in batches:
    try:
        with torch.no_grad():
            output = model(input_tensor)
        done += len(output)
    except RuntimeError as e:
        if "CUDA out of memory" in str(e):
            # the article's comment says to fall back here, to a smaller batch
            pass
print(json.dumps({"lost": SAMPLES - done}))
