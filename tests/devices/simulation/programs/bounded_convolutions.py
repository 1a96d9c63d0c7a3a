"""Bounds of a step with convolutions, by strategy, where cuDNN names two algorithms for each.

The second one has a larger workspace. Without cuDNN the name has that. Printed as JSON.
"""

import json
from dataclasses import asdict

from framebench.devices.catalog import find
from framebench.devices.simulation import cudnn
from framebench.devices.simulation.torch_plan import plan
from framebench.suite.hypothetical import parse_any_batch

WORKSPACES = (1 << 20, 256 << 20)


def describe(strategy):
    return asdict(plan(parse_any_batch(f"resnet50/torch/train/{strategy}/b4/tiny"), GPU))


GPU = find("a100-40gb")
answers = {"pool_off without cuDNN": describe("pool_off")}
cudnn.load_library = lambda: True
cudnn.read_version = lambda: "9.20.0"
cudnn.list_workspaces = lambda *_: iter(WORKSPACES)
for strategy in ("pool_off", "autotune", "fp32"):
    answers[strategy] = describe(strategy)
cudnn.list_workspaces = lambda *_: iter(WORKSPACES[:1])
cudnn.find_workspace_bytes.cache_clear()
answers["pool_off with one algorithm"] = describe("pool_off")
print(json.dumps(answers))
