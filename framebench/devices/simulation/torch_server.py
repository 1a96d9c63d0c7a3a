"""Plan PyTorch's cases one after the other, in PyTorch's environment (`plans.serving`).

python -m framebench.devices.simulation.torch_server
"""

from __future__ import annotations

import torch._decomp
import torch._dynamo  # takes a second
import torch._refs  # noqa: F401  (the first fake tensor of each case would import all three)

from framebench.devices.plans.serving import serve
from framebench.devices.simulation.torch_plan import plan

if __name__ == "__main__":
    serve(plan)
