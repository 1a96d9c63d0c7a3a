"""An interrupted run goes on; a finished one does not; two at once are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from framebench.session import Busy, Session


def abandon(results: Path, session: Session, pid: int) -> None:
    """As if the process that opened the session were another one."""
    started = psutil.Process(pid).create_time() if psutil.pid_exists(pid) else 0.0
    fields = {**json.loads(Session.path(results).read_text()), "pid": pid, "pid_started": started}
    Session.path(results).write_text(json.dumps(fields))


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_unfinished_is_resumed(results: Path) -> None:
    first = Session.open(results, "abc", "quick")
    abandon(results, first, dead_pid())
    assert Session.open(results, "abc", "quick").id == first.id


def test_finished_is_not(results: Path) -> None:
    first = Session.open(results, "abc", "quick")
    first.close(results)
    assert Session.open(results, "abc", "quick").id != first.id


@pytest.mark.parametrize(("code", "selector"), [("def", "quick"), ("abc", "resnet50")])
def test_other_code_or_other_cases_are_another_session(results: Path, code: str, selector: str) -> None:
    first = Session.open(results, "abc", "quick")
    abandon(results, first, dead_pid())
    assert Session.open(results, code, selector).id != first.id


def test_two_at_once_are_refused(results: Path) -> None:
    session = Session.open(results, "abc", "quick")
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        abandon(results, session, other.pid)
        with pytest.raises(Busy, match=str(other.pid)):
            Session.open(results, "abc", "quick")
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"id": 3}'])
def test_an_unreadable_session_is_a_new_one(results: Path, content: str) -> None:
    results.mkdir()
    Session.path(results).write_text(content)
    assert Session.open(results, "abc", "quick").id
