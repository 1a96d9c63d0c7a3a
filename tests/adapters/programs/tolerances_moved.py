import json
import sys

import torch

from framebench import adapters
from framebench.suite.selectors import parse
from framebench.suite.tensors import errors, largest
from framebench.suite.tolerance import joined
from framebench.worker.observe import first_steps

found = []
for seed in range(4):
    adapter = adapters.load(parse(sys.argv[1]))
    adapter.float64 = True
    adapter.build()
    if seed:
        noise = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in adapter.model.parameters():
                p.mul_(1 + 6e-8 * torch.randn(p.shape, generator=noise, dtype=p.dtype))
    found.append(first_steps(adapter)[1].tensors)
exact, *moved = found
print(json.dumps(joined({k: largest({n: errors(m[k][n], s) for n, s in exact[k].items()}) for k in exact} for m in moved)))
