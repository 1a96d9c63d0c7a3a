"""The part of `golden.py` that runs inside a framework: `python -m framebench.golden_worker WORKLOAD FRAMEWORK SIZE...`."""

from __future__ import annotations

import json
import sys

from framebench import adapters
from framebench.cases import Case
from framebench.worker import first_steps
from models.spec import MICRO_BATCHES, workload


def cases(name: str, framework: str, size: str) -> dict[str, Case]:
    """One fp32 case per golden key."""
    found: dict[str, Case] = {}
    for batch in workload(name).preset(size).batches:
        for scenario, strategy in (("train", "fp32"), ("eval", "no_grad"), ("train", "accumulate")):
            case = Case(name, framework, scenario, strategy, batch, size)
            if strategy != "accumulate" or batch % MICRO_BATCHES == 0:
                found.setdefault(case.golden_key, case)
    return found


def observe(case: Case) -> dict[str, float]:
    """What verification looks at, computed in float64 by this process's framework."""
    adapter = adapters.load(case)
    adapter.float64 = True
    adapter.build()
    return first_steps(adapter)[1]


if __name__ == "__main__":
    workload_name, framework_name, *chosen = sys.argv[1:]
    wanted = [c for size in chosen for c in cases(workload_name, framework_name, size).values()]
    print(json.dumps({case.golden_key: observe(case) for case in wanted}))
