"""The same step by two ways: simulated with a CPU's choices, and as `predict` counts storages on
the CPU. Printed as JSON.
"""

import json
import sys

import torch
import torch.optim.optimizer as optimizers

from framebench.budget.predict.worker import predict_step_bytes
from framebench.devices.catalog import find
from framebench.devices.simulation import torch_attention, torch_kernels
from framebench.devices.simulation.blocks import Settings
from framebench.devices.simulation.torch_device import replace_attributes
from framebench.devices.simulation.torch_plan import make_step_builder
from framebench.devices.simulation.torch_simulate import simulate
from framebench.devices.simulation.torch_watch import Watch
from framebench.suite.hypothetical import parse_any_batch


def attend(_, query, key, value, *others, **__):
    """Attend by a CPU's kernel, whose cases have no mask."""
    _mask, dropout, is_causal = others
    attend_on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return attend_on_cpu(query, key, value, dropout, is_causal)[0]


CHOICES_OF_A_CPU = (
    (torch_attention, "attend", attend),
    (optimizers, "_get_foreach_kernels_supported_devices", list),
    (torch_kernels, "MATMULS", set()),
    (torch_kernels, "TEMPORARIES", {}),
    # on tensors without numbers autograd makes each sum of gradients anew, and `predict` counts it
    (Watch, "defer_sum", lambda *_: False),
)
counts = {}
for case_id in sys.argv[1:]:
    case = parse_any_batch(case_id)
    with replace_attributes(CHOICES_OF_A_CPU):
        found = simulate(make_step_builder(case), find("h100-80gb"), steps=2, settings=Settings())
    counts[case_id] = predict_step_bytes(case) | {
        "simulated": found.watch.allocator.stats.requested_peak,
        "weights": sum(param.trainable for param in case.workload_spec.params(case.config)),
    }
print(json.dumps(counts))
