import json
import sys

import torch

from framebench import adapters
from framebench.suite.result import to_json
from framebench.suite.selectors import parse
from framebench.worker import worker

adapter = adapters.load(parse("transformer/torch/train/distill/b4/tiny"))
adapter.build()
more = (
    list(adapter.models_in_memory[1].parameters())
    if sys.argv[1] == "teacher"
    else [torch.nn.Parameter(torch.ones(3))]
)
adapter.optimizer.add_param_group({"params": [p.requires_grad_(True) for p in more]})
adapter.optimizer.register_step_pre_hook(
    lambda *_: [setattr(p, "grad", torch.ones_like(p)) for p in more] and None
)
print(json.dumps(to_json(worker.make_verified_steps(adapter)[1])))
