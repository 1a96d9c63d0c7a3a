"""The part of `rounding.py` that runs inside a framework, with arguments FILE CASE...

It adds a line of JSON to the file for each case: the errors of its values and tensors against float64, the largest of each
family.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from framebench.suite.tensors import errors, largest
from framebench.suite.tolerance import joined
from framebench.worker.observe import begin_again, first_steps
from framebench.worker.verification import stray

# Whether a value near zero passes a ReLU is rounding's choice, and seldom: one run shows too little of it. So training in
# float32 is repeated from weights that are as good.
NUDGES = 3


def off(case: Case) -> dict[str, Any]:
    """Errors by kind and family, the largest of them where training is repeated from other weights; or why there are none to
    speak of."""
    adapter = adapters.load(case)
    if fault := adapter.known_fault():
        return {"reason": fault}
    adapter.build()
    outcomes = [_errors_of(adapter)]
    if case.scenario in ("train", "pipeline") and case.plan.precision == "fp32":
        for seed in range(NUDGES):
            adapter.case = Nudged(**{f.name: getattr(case, f.name) for f in fields(case)}, seed=seed)
            begin_again(adapter)
            outcomes.append(_errors_of(adapter))
    return next((each for each in outcomes if "reason" in each), {"errors": joined(each["errors"] for each in outcomes)})


def _errors_of(adapter: Adapter) -> dict[str, Any]:
    case = adapter.case
    observed = first_steps(adapter)[1]
    values, tensors = case.spec.golden[case.golden_key], case.spec.golden_tensors[case.golden_key]
    if reason := stray(observed.tensors, tensors):
        return {"reason": reason}
    errors_by_kind = {
        kind: largest({n: errors(s, tensors[kind][n]) for n, s in seen.items()}) for kind, seen in observed.tensors.items()
    }
    if observed.updates:
        errors_by_kind["update"] = largest({name: (error, error) for name, error in observed.updates.items()})
    errors_by_kind["value"] = {name: (abs(v / values[name] - 1), 0.0) for name, v in observed.values.items()}
    return {"errors": errors_by_kind}


@dataclass(frozen=True)
class Nudged(Case):
    """A case with half of its weights one bit nearer to zero: as if they had been rounded otherwise."""

    seed: int = 0

    @property
    def weights(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        plain = super().weights
        return {n: np.where(rng.random(a.shape) < 0.5, a, np.nextafter(a, np.float32(0))) for n, a in plain.items()}


if __name__ == "__main__":
    file, *case_ids = sys.argv[1:]
    for case_id in case_ids:
        try:
            line = off(parse(case_id))
        except Exception as error:
            line = {"reason": f"{type(error).__name__}: {error}"[:300]}
        with open(file, "a") as done:
            done.write(json.dumps({case_id: line}) + "\n")
