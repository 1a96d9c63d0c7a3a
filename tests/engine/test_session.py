"""One process at a time measures; an interrupted run goes on, a finished one does not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from framebench.engine.session import Busy, Session, lock_results
from tests.kills import is_killed_at_call
from tests.processes import ROOT

# holds the folder named first, says so, and starts a process that outlives it
HOLD = Path(__file__).parent / "programs" / "session_hold.py"


def start_holder(results: Path, when: float = 0.0) -> subprocess.Popen[str]:
    """Start another process that holds the folder until its input ends."""
    command = [sys.executable, str(HOLD), str(results), str(when)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def read_message(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline()


def test_one_of_four_processes_that_start_together_gets_in(results):
    when = time.time() + 3
    processes = [start_holder(results, when) for _ in range(4)]
    words = [read_message(p).split()[0] for p in processes]
    for process in processes:
        process.communicate()
    assert sorted(words) == ["busy", "busy", "busy", "holds"]


def test_busy_names_the_holder_and_a_hint(results):
    process = start_holder(results)
    assert read_message(process).startswith("holds")
    with (
        pytest.raises(Busy, match=rf"process {process.pid} .* is measuring into .*--results"),
        lock_results(results),
    ):
        pass
    process.communicate()
    with lock_results(results):
        pass


def test_a_killed_holder_leaves_the_folder_free(results):
    """The folder is free even while the worker of the holder still lives."""
    process = start_holder(results)
    child = int(read_message(process).split()[1])
    process.kill()
    process.wait()
    try:
        with (
            lock_results(results),
            pytest.raises(Busy, match=f"process {os.getpid()} "),
            lock_results(results),
        ):
            pass
    finally:
        os.kill(child, 9)


def test_an_unfinished_session_is_resumed_and_a_finished_one_is_not(results):
    results.mkdir()
    first = Session.open(results, "abc", "quick")
    assert Session.open(results, "abc", "quick") == first
    first.close(results)
    assert list(results.iterdir()) == []
    assert Session.open(results, "abc", "quick").id != first.id


@pytest.mark.parametrize(
    ("code", "selector"), [("def", "quick"), ("abc", "resnet50"), (None, "quick")]
)
def test_another_session_leaves_an_unfinished_one_alone(results, code, selector):
    results.mkdir()
    first = Session.open(results, "abc", "quick")
    other = Session.open(results, code, selector)
    assert other.id != first.id
    other.close(results)
    assert Session.open(results, "abc", "quick") == first


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"id": "../../../x", "code": "abc", "selector": "quick"}',
    ],
)
def test_a_malformed_session_file_starts_a_new_session(results, content):
    results.mkdir()
    Session("", "abc", "quick").find_file(results).write_bytes(content)
    opened = Session.open(results, "abc", "quick")
    assert re.fullmatch("[0-9a-f]{12}", opened.id)
    assert Session.open(results, "abc", "quick") == opened


def begin_and_end_session(results: Path, begun: Path) -> None:
    """Open a session, write its name into a file, and end it."""
    session = Session.open(results, "code", "cases")
    begun.write_text(session.id)
    session.close(results)


def test_a_kill_as_a_session_begins_or_ends_leaves_nothing_behind(results, tmp_path):
    """A process is killed in its first call that changes the folder, another in its second ..."""
    results.mkdir()
    resumed = 0
    for number in count(1):
        begun = tmp_path / f"begun-{number}"
        act = partial(begin_and_end_session, results, begun)
        was_killed = is_killed_at_call(number, results, act)
        session = Session.open(results, "code", "cases")
        if was_killed and begun.exists():
            assert session.id == begun.read_text(), "what has begun goes on"
            resumed += 1
        assert list(results.iterdir()) == [session.find_file(results)]
        session.close(results)
        if not was_killed:
            break
    assert number > 4, "it was killed in each of its calls"
    assert resumed > 0
