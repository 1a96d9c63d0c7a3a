"""Explain where the peak of one steady step comes from: `python -m framebench.explain.worker CASE`.

It runs in the framework's environment and prints one JSON object, the fields of
`framebench.explain.record.Explanation`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from framebench import adapters
from framebench.suite.hypothetical import parse_any_batch
from framebench.worker.worker import measure_peaks, repeat_new_shapes, reserve_stdout


def explain(case_id: str) -> dict[str, Any]:
    """Return the framework's account of a step, and the peak of the one before.

    The latter is the second step, which runs without the account.
    """
    case = parse_any_batch(case_id)
    module = importlib.import_module(f"framebench.explain.{case.framework}_account")
    adapter = adapters.load(case)
    adapter.build()
    measure_peaks(adapter)  # the first step makes the optimizer's states, and is not steady
    (measured,) = repeat_new_shapes(adapter, lambda: [measure_peaks(adapter)])
    # the account slows the step down and may hold tensors longer, so no peak is measured with it
    account = module.explain_step(adapter)
    return {
        "case": case.id,
        "measured": measured,
        **account,
        "versions": adapter.versions(),
        "device": adapter.device(),
    }


if __name__ == "__main__":
    out = reserve_stdout()
    print(json.dumps(explain(sys.argv[1])), file=out)
    os._exit(0)
