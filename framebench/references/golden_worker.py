"""Compute reference values inside a framework's environment, for `golden.py`.

`python -m framebench.references.golden_worker WORKLOAD FRAMEWORK SIZE FILE KNOWN_KEY...` adds a
line of JSON to the file for each key that is not known, but for no more than AT_ONCE of them, since
what is compiled for one stays in memory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from framebench import adapters
from framebench.records.lines import append_lines
from framebench.suite.case import Case
from framebench.suite.profiles import list_cases
from framebench.worker.observe import make_first_steps

AT_ONCE = 8


def select_cases(workload: str, framework: str, size: str) -> dict[str, Case]:
    """Return one case for each golden key: the baseline of the scenario whose key it is.

    For a key that is no baseline's, the case is the first in the table's order that needs neither a
    GPU nor another precision.
    """
    cases: dict[str, Case] = {}
    for case in list_cases():
        if (case.workload, case.framework, case.size) != (workload, framework, size):
            continue
        if (
            case.support.supported
            and not case.support.gpu
            and case.strategy_spec.precision == "fp32"
        ):
            if case.strategy == case.scenario_spec.baseline and not case.scenario_spec.mathematics:
                cases[case.golden_key] = case
            cases.setdefault(case.golden_key, case)
    return cases


def compute_reference(case: Case) -> dict[str, Any]:
    """Return the values and tensors of a case, computed in float64 by this process's framework."""
    adapter = adapters.load(case)
    adapter.float64 = True
    adapter.build()
    _, observed = make_first_steps(adapter)
    return {"values": observed.values, "tensors": observed.tensors}


def main() -> None:
    """Add the next keys to the file."""
    workload, framework, size, file, *finished_keys = sys.argv[1:]
    cases = select_cases(workload, framework, size)
    missing = [key for key in cases if key not in finished_keys]
    for key in missing[:AT_ONCE]:
        reference = compute_reference(cases[key])
        append_lines([json.dumps({key: reference})], Path(file))


if __name__ == "__main__":
    main()
