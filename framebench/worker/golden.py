"""The part of `golden.py` that runs inside a framework: `python -m framebench.worker.golden WORKLOAD FRAMEWORK SIZE...`."""

from __future__ import annotations

import json
import sys

from framebench import adapters
from framebench.suite.case import Case
from framebench.suite.profiles import every_case
from framebench.worker.worker import first_steps


def cases(name: str, framework: str, size: str) -> dict[str, Case]:
    """One case per golden key: the first in the table's order that needs neither a GPU nor another precision."""
    found: dict[str, Case] = {}
    for case in every_case():
        if (case.workload, case.framework, case.size) != (name, framework, size):
            continue
        if case.support.supported and not case.support.gpu and case.plan.precision == "fp32":
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
