"""Compare the harness's step with a hand-written training loop: `overhead.py ROUNDS`.

Both run the same model on the same data, alternately, in one process; the result is the ratio of
their medians with a bootstrap 95 % interval (percentile method, Efron 1979).
"""

import json
import os
import sys
import time

import numpy as np
import torch
from torch import nn

from framebench import adapters
from framebench.models.spec import load_workload
from framebench.suite.selectors import parse
from framebench.worker.stepping import make_timed_step

CASE = "transformer/torch/train/fp32/b4/cpu"
WARM_UP = 3  # rounds that do not count


def make_bare_step(adapter):
    """Return a training step as anyone writes it, which returns its seconds."""
    case, spec = adapter.case, load_workload(adapter.case.workload)
    model = spec.import_model("torch").build(adapter.config)
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in case.weights.items()})
    settings = spec.optimizer
    optimizer = torch.optim.AdamW(
        model.parameters(), settings.lr, settings.betas, settings.eps, settings.weight_decay
    )
    inputs, targets = map(torch.from_numpy, spec.make_batch(case.config, case.batch))
    model.train()

    def step():
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        return time.perf_counter() - start

    return step


def compare(rounds):
    """Return the ratio of the median step times, harness / bare loop, with its 95 % interval.

    The interval comes from resampling pairs of steps.
    """
    adapter = adapters.load(parse(CASE))
    adapter.build()
    bare_step = make_bare_step(adapter)
    for _ in range(WARM_UP):
        make_timed_step(adapter)
        bare_step()
    harness = []  # seconds
    bare = []
    for _ in range(rounds):
        harness.append(make_timed_step(adapter))
        bare.append(bare_step())

    harness, bare = np.array(harness), np.array(bare)
    chosen = np.random.default_rng(0).integers(0, rounds, (2000, rounds))
    ratios = np.median(harness[chosen], axis=1) / np.median(bare[chosen], axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return {"ratio": np.median(harness) / np.median(bare), "low": low, "high": high}


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(json.dumps(compare(int(sys.argv[1]))))
