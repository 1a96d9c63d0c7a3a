"""The same step by two ways: simulated with a CPU's choices, and as `predict` counts storages on
the CPU. Printed as JSON.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from typing import Any

import torch
import torch.optim.optimizer as optimizers
from torch import Tensor

from framebench.budget.predict.worker import predict_step_bytes
from framebench.devices.catalog import find
from framebench.devices.simulation import torch_attention, torch_kernels
from framebench.devices.simulation.blocks import Settings
from framebench.devices.simulation.torch_device import replaced
from framebench.devices.simulation.torch_plan import step_of
from framebench.devices.simulation.torch_simulate import simulate
from framebench.devices.simulation.torch_watch import Watch
from framebench.suite.hypothetical import parse_any_batch


def attend(_: Any, query: Tensor, key: Tensor, value: Tensor, *others: Any, **__: Any) -> Tensor:
    """`others`: the mask, of which there is none, dropout and whether the mask is causal."""
    mask, *rest = others
    assert mask is None
    out: Tensor = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, *rest
    )[0]
    return out


def both(case_id: str) -> dict[str, int]:
    case = parse_any_batch(case_id)
    with ExitStack() as stack:
        stack.enter_context(replaced(torch_attention, "attend", attend))
        stack.enter_context(replaced(optimizers, "_get_foreach_kernels_supported_devices", list))
        stack.enter_context(replaced(torch_kernels, "MATMULS", set()))
        stack.enter_context(replaced(torch_kernels, "TEMPORARIES", {}))
        # on tensors without numbers autograd makes each sum of gradients anew, and `predict` counts
        # it
        stack.enter_context(replaced(Watch, "may_overwrite", lambda *_: False))
        found = simulate(step_of(case), find("h100-80gb"), steps=2, settings=Settings())
    weights = sum(p.trainable for p in case.spec.params(case.config))
    return predict_step_bytes(case) | {
        "simulated": found.allocator.stats.requested_peak,
        "weights": weights,
    }


print(json.dumps({case: both(case) for case in sys.argv[1:]}))
