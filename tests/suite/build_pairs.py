"""Builds cases in a framework's environment, one after the other:

`python -m tests.suite.build_pairs CASE...`.

A line of JSON for each case, as soon as it is known: `refused` says why the adapter would not be
built, `error` what broke; else whether its first steps were right, and which of its strategies were
proven.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from typing import Any

from framebench import adapters
from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.selectors import parse
from framebench.worker import worker


def outcome(case_id: str) -> dict[str, Any]:
    try:
        adapter = adapters.load(parse(case_id))
        try:
            adapter.build()
        except IncompatibleStrategies as error:
            return {"refused": str(error)}
        verification = worker.make_verified_steps(adapter)[1]
        effect = adapter.judge_effect()
        found = {
            "proven": effect.proven,
            "evidence": str(effect.evidence),
            "on_cpu": adapter.device() == "cpu",
        }
        return {"right": verification.passed, "verification": str(verification)[:2000]} | found
    except Exception:
        return {"error": traceback.format_exc()[-2000:]}


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(json.dumps({"case": each} | outcome(each)), flush=True)
        gc.collect()
    sys.stdout.flush()
    os._exit(0)  # as the worker does: Jittor's clean-up at exit sometimes crashes
