import json
import sys

import numpy as np

from framebench.instruments import limits

make = {"numpy": lambda n: np.ones(n, np.uint8)}
if sys.argv[1] == "torch":
    import torch

    make["torch"] = lambda n: torch.ones(n, dtype=torch.uint8)


def fits(mib):
    try:
        make[sys.argv[1]](mib * 2**20)
    except (MemoryError, RuntimeError):
        return False
    return True


answers = {}
limits.limit_growth(64 * 2**20)
answers["60 of 64 MiB"] = fits(60)
answers["66 of 64 MiB"] = fits(66)
array = make[sys.argv[1]](40 * 2**20)  # stays allocated
answers["20 next to 40 of 64 MiB"] = fits(20)
answers["28 next to 40 of 64 MiB"] = fits(28)
limits.limit_growth(None)
answers["256 MiB without a limit"] = fits(256)
print(json.dumps(answers))
