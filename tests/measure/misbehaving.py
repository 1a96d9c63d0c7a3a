#!/usr/bin/env python3
"""Stands in for a framework's interpreter: `misbehaving.py -m framebench.worker.worker TASK` does what $MISBEHAVE says."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

task = json.loads(sys.argv[-1])
print(json.dumps({"phase": "timing"}), flush=True)
match os.environ["MISBEHAVE"]:
    case "exception":
        print(json.dumps({"error": {"type": "ValueError", "message": "planted", "oom": False}}), flush=True)
        sys.exit(1)
    case "refusal":  # oneDNN's words under a limit, which do not name memory
        refused = {"type": "RuntimeError", "message": "could not create a primitive", "oom": True}
        print(json.dumps({"error": refused}), flush=True)
        sys.exit(1)
    case "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    case "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    case "hang":
        time.sleep(3600)
    case "hang with child":
        if os.fork() == 0:
            time.sleep(3600)
        time.sleep(3600)
    case "silent exit":
        sys.exit(3)
    case "bad_alloc":
        print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGABRT)
    case "babble":
        print("this is not JSON", flush=True)
        sys.exit(0)
