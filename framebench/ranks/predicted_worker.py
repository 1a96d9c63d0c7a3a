"""Predict the peak of one rank of a case: `python -m framebench.ranks.predicted_worker CASE`.

It runs in the framework's environment and prints one JSON object: the result of
`<framework>_predicted.predict_rank_bytes`, or `{"error": why}`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from framebench.adapters.base import RanksUnavailable
from framebench.ranks.cases import parse_rank_case
from framebench.worker.worker import reserve_stdout

if __name__ == "__main__":
    out = reserve_stdout()
    case = parse_rank_case(sys.argv[1])
    module = importlib.import_module(f"framebench.ranks.{case.framework}_predicted")
    try:
        answer = module.predict_rank_bytes(case)
    except RanksUnavailable as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), file=out)
    out.flush()
    os._exit(0)
