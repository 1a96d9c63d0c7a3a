"""A child may print without end, say no end of a line, and leave processes behind: nothing fills,
nothing hangs, and nothing is left.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import psutil
import pytest

from framebench.engine import children, supervisor
from framebench.engine.environments import Environment
from framebench.engine.supervisor import Outcome, Worker
from tests.processes import framebench

RESULT = json.dumps({"result": {"done": True}})
MARKER = "FRAMEBENCH_TEST_RUNAWAY"  # what a test's processes are known by
FORK = """
def sleep_in_child():
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
"""
DAEMON = """
def sleep_in_child():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
"""
FLOOD = """
def flood(stream):
    while True:
        stream.write(b"x" * 2**20)
"""


def run_program(program: str, folder: Path, limit_s: float = 60.0) -> Outcome:
    """Run a Python program in a worker's place, and return what became of it."""
    file = folder / "program.py"
    file.write_text(f"import os, sys, time\n{program}")
    script = folder / "python"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} {file}\n")
    script.chmod(0o755)
    worker = Worker(Environment("torch", "1", script), "worker", {}, {MARKER: str(folder)})
    return worker.end(lambda phase: None, limit_s)


def list_left(folder: Path) -> list[psutil.Process]:
    """Return the processes that a program in this folder has left."""
    left = []
    for process in psutil.process_iter():
        try:
            is_left = process.environ().get(MARKER) == str(folder)
        except psutil.Error:
            continue
        if is_left and process.status() != psutil.STATUS_ZOMBIE:
            left.append(process)
    return left


@pytest.mark.parametrize("how", [FORK, DAEMON], ids=["fork", "daemon"])
@pytest.mark.parametrize(
    ("end", "status"),
    [
        (f"print('{RESULT}', flush=True)", "ok"),
        (f"print('{RESULT}', flush=True); time.sleep(600)", "ok"),
        ("sys.exit(3)", "crashed"),
        ("time.sleep(600)", "timeout"),
    ],
    ids=["says its result", "stays after its result", "ends without", "hangs"],
)
def test_what_a_worker_leaves_behind_neither_delays_nor_outlives_it(
    how: str, end: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "GRACE_S", 1.0)
    began = time.monotonic()
    limit_s = 3.0 if status == "timeout" else 60.0
    outcome = run_program(f"{how}\nsleep_in_child()\n{end}\n", tmp_path, limit_s)
    assert outcome.status == status
    assert time.monotonic() - began < 30
    assert list_left(tmp_path) == []


@pytest.mark.parametrize("stream", ["sys.stdout.buffer", "sys.stderr.buffer"])
def test_a_worker_that_prints_without_end_takes_neither_disk_nor_memory(
    stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(children, "MOST_LINE_BYTES", 2**22)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = run_program(f"{FLOOD}\nflood({stream})\n", tmp_path, limit_s=3.0)
    assert outcome.status in ("timeout", "crashed")
    assert len(outcome.log) <= children.LOG_BYTES
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 2**10  # KiB
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 2**20


def test_the_log_is_what_was_printed_last(tmp_path: Path) -> None:
    lines = "for number in range(100_000): print(number, file=sys.stderr)"
    outcome = run_program(f"{lines}\nsys.exit(1)\n", tmp_path)
    assert outcome.log.splitlines()[-1] == "99999"
    assert len(outcome.log.splitlines()) == 25


@pytest.mark.parametrize(
    "line", ["5", "null", "[]", "[" * 100_000, "{}", '"phase"', "NaN"], ids=lambda line: line[:8]
)
def test_a_line_that_is_no_message_is_an_error_of_the_worker(line: str, tmp_path: Path) -> None:
    outcome = run_program(f"print('{line}', flush=True)\ntime.sleep(600)\n", tmp_path)
    assert outcome.status == "crashed"
    assert "not a message" in (outcome.reason or "")


@pytest.mark.parametrize("limit", ["inf", "1e300", "nan", "-1", "0"])
@pytest.mark.parametrize(
    "command",
    [
        "run CASE",
        "plan CASE",
        "try FILE",
        "max-batch CASE --budget 1GiB",
        "claims B19 --run",
        "versions run CASE",
    ],
)
def test_a_time_limit_without_an_end_is_refused(command: str, limit: str, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("import torch\n")
    named = {"CASE": "transformer/torch/train/fp32/b4/tiny", "FILE": str(file)}
    words = [named.get(word, word) for word in command.split()]
    done = framebench(*words, "--time-limit", limit)
    assert done.returncode == 2
    assert "--time-limit" in done.stderr
