"""What float64 itself says about how well a verified value can be known."""

from __future__ import annotations

import json
import os
import subprocess

from framebench.measure.environments import Environment
from framebench.records.provenance import ROOT
from framebench.suite.protocol import BATCH_NORM, ONE_SAMPLE

MOVED = """
import json, torch
from framebench import adapters
from framebench.suite.selectors import parse
from framebench.worker.worker import first_steps
found = []
for seed in (None, 2):
    adapter = adapters.load(parse("resnet50/torch/train/accumulate_8/b8/cpu"))
    adapter.float64 = True
    adapter.build()
    if seed:
        noise = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in adapter.model.parameters():
                p.mul_(1 + 6e-8 * torch.randn(p.shape, generator=noise, dtype=p.dtype))
    found.append(first_steps(adapter)[1])
print(json.dumps({name: abs(found[1][name] / found[0][name] - 1) for name in found[0]}))
"""


def test_one_sample_under_batch_norm_is_known_no_better(environment: dict[str, Environment]) -> None:
    """Weights moved by half a float32 ulp move the loss after three updates further than BATCH_NORM allows."""
    command = [str(environment["torch"].python), "-c", MOVED]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    moved = json.loads(done.stdout)
    assert BATCH_NORM["loss_3"] < moved["loss_3"] < ONE_SAMPLE["loss_3"]
    assert moved["loss_0"] < 1e-6
    assert moved["grad_norm"] < ONE_SAMPLE["grad_norm"]
