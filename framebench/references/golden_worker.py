"""The part of `golden.py` that runs inside a framework, which adds a line of JSON to a file for each key not known, but no more
than AT_ONCE of them, since what is compiled for one stays in memory:

`python -m framebench.references.golden_worker WORKLOAD FRAMEWORK SIZE FILE KNOWN_KEY...`
"""

from __future__ import annotations

import json
import sys
from typing import Any

from framebench import adapters
from framebench.suite.case import Case
from framebench.suite.profiles import every_case
from framebench.worker.observe import first_steps

AT_ONCE = 8


def cases(name: str, framework: str, size: str) -> dict[str, Case]:
    """One case per golden key: the baseline of the scenario whose key it is, else the first in the table's order that needs
    neither a GPU nor another precision."""
    cases_by_key: dict[str, Case] = {}
    for case in every_case():
        if (case.workload, case.framework, case.size) != (name, framework, size):
            continue
        if case.support.supported and not case.support.gpu and case.plan.precision == "fp32":
            if case.strategy == case.stage.baseline and not case.stage.mathematics:
                cases_by_key[case.golden_key] = case
            cases_by_key.setdefault(case.golden_key, case)
    return cases_by_key


def _observe(case: Case) -> dict[str, Any]:
    """What verification looks at, computed in float64 by this process's framework."""
    adapter = adapters.load(case)
    adapter.float64 = True
    adapter.build()
    observed = first_steps(adapter)[1]
    return {"values": observed.values, "tensors": observed.tensors}


if __name__ == "__main__":
    workload_name, framework_name, chosen_size, file, *done_keys = sys.argv[1:]
    wanted = cases(workload_name, framework_name, chosen_size)
    for key in [key for key in wanted if key not in done_keys][:AT_ONCE]:
        observed = _observe(wanted[key])
        with open(file, "a") as done:
            done.write(json.dumps({key: observed}) + "\n")
