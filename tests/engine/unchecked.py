#!/usr/bin/env python3
"""Stands in for a framework that does not check its allocations:

`unchecked.py -m framebench.budget.max_batch.worker ORDER` needs a MiB per sample, and above the
budget does what $BEYOND says: die, be killed, raise something else, or take it anyway.
"""

from __future__ import annotations

import json
import os
import signal
import sys

MIB = 2**20
order = json.loads(sys.argv[-1])
batch = int(order["case"].split("/")[4][1:])


def emit(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


def beyond() -> None:
    match os.environ["BEYOND"]:
        case "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "die while writing":
            print('{"report": {"first": 0, "ba', end="", flush=True)
            os.kill(os.getpid(), signal.SIGABRT)
        case "be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            emit({"error": {"type": "ValueError", "message": "planted", "oom": False}})
            sys.exit(1)


emit({"phase": "steps under the limit" if order["budget"] else "steps"})
if order["task"] == "fit":
    if order["budget"] and batch * MIB > order["budget"]:
        beyond()
    peaks = {"host.rss": batch * MIB}
    emit(
        {
            "result": {
                "peaks": peaks,
                "cold_peaks": peaks,
                "kept_bytes": 0,
                "step_s": 0.1,
                "limited": True,
            }
        }
    )
else:
    for first in range(order["first"], order["samples"], batch):
        size = min(batch, order["samples"] - first)
        emit({"report": {"first": first, "batch": size}})
        if order["budget"] and size * MIB > order["budget"]:
            beyond()
        emit(
            {
                "report": {
                    "first": first,
                    "batch": size,
                    "peaks": {},
                    "losses": [0.5 * i for i in range(first, first + size)],
                }
            }
        )
    emit({"result": {"limited": True}})
