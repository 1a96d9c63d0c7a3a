"""Verify cases as a run does, after timed steps too: prints by case what became of it.

In float64 those of the smallest size are computed.
"""

import gc
import importlib
import json
import sys
import traceback
from dataclasses import replace

from framebench import adapters
from framebench.suite.result import to_json
from framebench.suite.selectors import parse
from framebench.worker import mathematics, stepping, worker

importlib.import_module(f"framebench.adapters.{parse(sys.argv[1]).framework}")
unfreeze, gc.unfreeze = gc.unfreeze, lambda: None  # which each adapter calls
# what is imported need not be looked through at every collection, unless the strategy is to freeze
# it
gc.freeze()
rows = {}
for case_id in sorted(sys.argv[1:], key=lambda case_id: "gc_frozen" in case_id):
    try:
        if "gc_frozen" in case_id:
            unfreeze()
        adapter = adapters.load(parse(case_id))
        adapter.build()
        verified, verification = worker.make_verified_steps(adapter)
        losses = []
        for _ in range(3 if adapter.case.stage.trains else 0):
            stepping.make_timed_step(adapter)
            losses.append(adapter.loss())
        again = worker.verify_again(adapter, losses, verified.tolerances)
        passed = verification.passed and again.passed
        effect = adapter.judge_effect()
        rows[case_id] = {
            "verification": to_json(replace(verification, passed=passed, again=again)),
            "proven": effect.proven,
            "evidence": effect.evidence,
            "on_cpu": adapter.device() == "cpu",
        }
        del adapter
    except Exception:
        rows[case_id] = {"error": traceback.format_exc()[-2000:]}
for case_id, row in rows.items():  # last, since in a run they have a process of their own
    if parse(case_id).size == "tiny":
        row["mathematics"] = to_json(mathematics.check_in_float64(parse(case_id)))
        gc.collect()
print(json.dumps(rows))
