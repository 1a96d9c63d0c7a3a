"""Verify cases as a run does, in float64 and in their own precision: prints by case why it is
wrong, or nothing.
"""

import gc
import json
import sys

from framebench import adapters
from framebench.suite.case import Case
from framebench.suite.result import to_json
from framebench.suite.selectors import parse
from framebench.worker.mathematics import check_in_float64
from framebench.worker.verification import make_verified_steps


def outcome_of(case: Case) -> dict[str, object]:
    mathematics = check_in_float64(case) if case.size == "tiny" else None
    gc.collect()
    adapter = adapters.load(case)
    adapter.build()
    verification = make_verified_steps(adapter)[1]
    reasons = []
    if mathematics and not mathematics.passed:
        reasons.append(mathematics.reason)
    if not verification.passed:
        far = {kind: to_json(each) for kind, each in verification.tensors.items() if each.failed}
        reasons.append(verification.reason or json.dumps(far))
    return {
        "wrong": "; ".join(reasons),
        "known_fault": verification.known_fault,
        "margin": verification.margin,
        "float64_error": mathematics and mathematics.error,
    }


outcomes = {}
for name in sys.argv[1:]:
    outcomes[name] = outcome_of(parse(name))
    gc.collect()
print(json.dumps(outcomes))
