"""The part of `honest.py` that runs inside a framework: `python -m framebench.worker.honest FILE CASE...`

It adds a line of JSON to the file for each case: the errors of its values and tensors against float64, the largest of each
family.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from framebench import adapters
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from framebench.suite.tensors import errors, largest
from framebench.worker.observe import first_steps
from framebench.worker.verification import stray


def off(case: Case) -> dict[str, Any]:
    """Errors by kind and family; or why there are none to speak of."""
    adapter = adapters.load(case)
    adapter.build()
    observed = first_steps(adapter)[1]
    values, tensors = case.spec.golden[case.golden_key], case.spec.golden_tensors[case.golden_key]
    if reason := stray(observed.tensors, tensors):
        return {"reason": reason}
    found = {
        kind: largest({n: errors(s, tensors[kind][n]) for n, s in seen.items()}) for kind, seen in observed.tensors.items()
    }
    found["value"] = {name: (abs(v / values[name] - 1), 0.0) for name, v in observed.values.items()}
    return {"errors": found}


if __name__ == "__main__":
    file, *case_ids = sys.argv[1:]
    for case_id in case_ids:
        try:
            line = off(parse(case_id))
        except Exception as error:
            line = {"reason": f"{type(error).__name__}: {error}"[:300]}
        with open(file, "a") as done:
            done.write(json.dumps({case_id: line}) + "\n")
