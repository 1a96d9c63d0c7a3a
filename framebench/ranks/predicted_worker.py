"""The peak of one rank of a case, predicted: `python -m framebench.ranks.predicted_worker CASE`, in its framework's
environment. Prints one JSON object: what the framework's `predicted_rank.predict` found, or `{"error": why}`."""

from __future__ import annotations

import importlib
import json
import os
import sys

from framebench.ranks.cases import over_ranks
from framebench.worker.worker import own_stdout

if __name__ == "__main__":
    out = own_stdout()
    case = over_ranks(sys.argv[1])
    module = importlib.import_module(f"framebench.ranks.{case.framework}_predicted")
    try:
        print(json.dumps(module.predict(case)), file=out)
    except module.Gone as error:
        print(json.dumps({"error": str(error)}), file=out)
    out.flush()
    os._exit(0)
