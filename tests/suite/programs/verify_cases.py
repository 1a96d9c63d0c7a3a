"""Verify cases as a run does, after timed steps too: `verify_cases.py [--steps] CASE...`.

Prints a line of JSON for each case as soon as it is known: `refused` says why the adapter would not
be built, `error` what broke. Without `--steps` those of the smallest size are computed in float64,
too. The last line has what became of all cases.
"""

import gc
import importlib
import json
import sys
import traceback
from dataclasses import replace

from framebench import adapters
from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.result import to_json
from framebench.suite.selectors import parse
from framebench.worker import mathematics, stepping, worker


def verify(case_id):
    adapter = adapters.load(parse(case_id))
    try:
        adapter.build()
    except IncompatibleStrategies as error:
        return {"refused": str(error)}
    verified, verification = worker.make_verified_steps(adapter)
    losses = []
    for _ in range(3 if adapter.case.scenario_spec.trains else 0):
        stepping.make_timed_step(adapter)
        losses.append(adapter.loss())
    again = worker.verify_again(adapter, losses, verified.tolerances)
    passed = verification.passed and again.passed
    effect = adapter.judge_effect()
    return {
        "verification": to_json(replace(verification, passed=passed, again=again)),
        "proven": effect.proven,
        "evidence": effect.evidence,
        "on_cpu": adapter.device() == "cpu",
    }


is_in_float64 = sys.argv[1] != "--steps"
cases = sys.argv[1:] if is_in_float64 else sys.argv[2:]
importlib.import_module(f"framebench.adapters.{parse(cases[0]).framework}")
unfreeze, gc.unfreeze = gc.unfreeze, lambda: None  # which each adapter calls
# what is imported need not be looked through at every collection, unless the strategy is to freeze
# it
gc.freeze()
rows = {}
for case_id in sorted(cases, key=lambda case_id: "gc_frozen" in case_id):
    if "gc_frozen" in case_id:
        unfreeze()
    try:
        rows[case_id] = verify(case_id)
    except Exception:
        rows[case_id] = {"error": traceback.format_exc()[-2000:]}
    print(json.dumps({"case": case_id, **rows[case_id]}), flush=True)
    gc.collect()
for case_id, row in rows.items():  # last, since in a run they have a process of their own
    if is_in_float64 and parse(case_id).size == "tiny":
        row["mathematics"] = to_json(mathematics.check_in_float64(parse(case_id)))
        gc.collect()
print(json.dumps(rows))
