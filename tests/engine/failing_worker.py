#!/usr/bin/env python3
"""Stands in for a framework's interpreter:

`failing_worker.py -m framebench.worker.worker TASK` fails as $FAKE_FAILURE says.

$FAKE_FAILURE is one failure for all, or one by strategy, for instance `checkpoint: kill in turn,
fp32: work`; what is not named works as it should. Each event is a line of $EVENT_LOG. A turn takes
$LINGER seconds longer, of those cases alone whose id contains $LINGER_IN.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

task = json.loads(sys.argv[-1])
strategy = task["case"].split("/")[3]
requested = os.environ.get("FAKE_FAILURE", "work")
failures = {strategy: requested}
if ": " in requested:
    failures = dict(pair.split(": ") for pair in requested.split(", "))
failure = failures.get(strategy, "work")
loss = {"loss": 1.0}
VERIFIED = {"passed": True, "observed": loss, "golden": loss, "relative_error": {"loss": 0.0}}
VERIFIED["tolerance"] = loss
VERIFIED["verified_in"] = (task["verified"] or {}).get("name")
ERRORS = {
    "exception": {"type": "ValueError", "message": "planted", "oom": False},
    # oneDNN's words under a limit, which do not name memory
    "refusal": {"type": "RuntimeError", "message": "could not create a primitive", "oom": True},
    "slow": {"type": "OverBudget", "message": "a step takes 99.0 s", "oom": False},
}
ERRORS["slow"]["over_budget"] = True
SIGNALS = {"kill": signal.SIGKILL, "segfault": signal.SIGSEGV, "bad_alloc": signal.SIGABRT}


def say(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


def write(what: str, core: int | None = None) -> None:
    if event_log := os.environ.get("EVENT_LOG"):
        with open(event_log, "a") as file:
            file.write(f"{what} {strategy} {os.getpid()} {core}\n")


def count_starts() -> int:
    with open(os.environ["EVENT_LOG"]) as file:
        return file.read().count(f"start {strategy} ")


def fail(failure: str) -> None:
    if failure in ERRORS:
        say({"error": ERRORS[failure]})
        sys.exit(1)
    if failure in SIGNALS:
        words = "an instance of 'std::bad_alloc'" if failure == "bad_alloc" else ""
        print(words, file=sys.stderr, flush=True)
        os.kill(os.getpid(), SIGNALS[failure])
    if failure == "silent exit":
        sys.exit(3)
    if failure == "babble":
        print("this is not JSON", flush=True)
        sys.exit(0)
    if failure == "hang with child":
        os.fork()
    if failure in ("hang", "hang with child"):
        time.sleep(3600)


def time_part() -> dict[str, object]:
    say({"ready": {"step_s": 0.01, "verification": VERIFIED, "queues": False}})
    times = {"first_step_s": 0.5, "cpu_s_per_step": 0.01}
    for number, line in enumerate(sys.stdin):
        order = json.loads(line)
        if "finish" in order:
            write("finish", order.get("core"))
            verification = VERIFIED | {"passed": failure != "wrong in the end"}
            effect = {"proven": True, "evidence": {}}
            if "at its proof" in failure:
                say({"measured": {"verification": VERIFIED, "times": times}})
                say({"phase": "effect"})
                fail(failure.removesuffix(" at its proof"))
            return {"verification": verification, "effect": effect, "times": times}
        write("turn")
        if os.environ.get("LINGER_IN", "") in task["case"]:
            time.sleep(float(os.environ.get("LINGER", "0")))
        if number == 2 and failure.endswith(" in turn"):
            fail(failure.removesuffix(" in turn"))
        say({"turn": {"wall_s": 0.01, "cpu_s": 0.01, "instructions": 1000, "device_s": None}})
    sys.exit(0)


is_timed = task["part"] == "time"
say({"phase": "timing" if is_timed else "memory"})
core_until_ready = task["core"] if task["core_until_ready"] is None else task["core_until_ready"]
write("start" if is_timed else "memory", core_until_ready)
fail(failure)
if failure == "refusal at first" and count_starts() == 1:
    fail("refusal")
if is_timed:
    result = time_part()
else:
    fail(failure.removesuffix(" in memory"))
    peaks = {"peaks": {"host.rss": 2**20}, "cold_peaks": {"host.rss": 2**21}}
    result = {"memory": {**peaks, "live_bytes": 2**19}}
origin = {"versions": {"torch": "0"}, "device": "cpu", "python": "3", "core": task["core"]}
say({"result": {**result, "origin": {**origin, "import_s": 0, "build_s": 0}, "work_s": 0}})
