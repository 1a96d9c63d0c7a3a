"""Where the peak of one steady step of a case comes from: `python -m framebench.explain.worker CASE`, in its
framework's environment. Prints one JSON object; `records.explanation.Explanation` says what is in it."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from framebench import adapters
from framebench.suite.hypothetical import parse_any_batch
from framebench.worker.worker import own_stdout, peaks


def explain(case_id: str) -> dict[str, Any]:
    """The framework's account of a step, after two steps without it, of which the second one's peak is measured."""
    case = parse_any_batch(case_id)
    module = importlib.import_module(f"framebench.explain.{case.framework}_account")
    adapter = adapters.load(case)
    adapter.build()
    peaks(adapter)
    measured = peaks(adapter)
    step_account = module.account(adapter)
    return {"case": case.id, "measured": measured, **step_account, "versions": adapter.versions(), "device": adapter.device()}


if __name__ == "__main__":
    out = own_stdout()
    print(json.dumps(explain(sys.argv[1])), file=out)
    os._exit(0)
