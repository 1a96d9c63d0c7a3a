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


limits.limit_growth(64 * 2**20)
under = fits(60), fits(66)
held = make[sys.argv[1]](40 * 2**20)
rest = fits(20), fits(28)
limits.limit_growth(None)
print(json.dumps([*under, *rest, fits(256)]))
