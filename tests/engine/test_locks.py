"""Whoever waits for a lock of another process says once what it waits for."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from framebench.cluster.collect import collect
from framebench.devices.plans import store
from framebench.engine import environments
from framebench.engine.environments import Environment, Say
from framebench.engine.locks import hold_lock
from tests.callbacks import ignore
from tests.devices.fake_predictions import make_planned

HOLD = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def build_environment(folder: Path, say: Say) -> None:
    environment = Environment("torch", "2.13.0", folder / "torch" / "bin" / "python")
    environments.ensure_built(environment, Mock(), say)


def collect_records(folder: Path, say: Say) -> None:
    collect([], folder, say=say)


def write_prediction(folder: Path, say: Say) -> None:
    store.write(folder, make_planned(), say)


WAITS: dict[str, tuple[Callable[[Path, Say], None], str, str]] = {
    "an environment": (build_environment, "torch.lock", "builds torch 2.13.0"),
    "records": (collect_records, ".collect.lock", "collects into"),
    "a prediction": (write_prediction, store.LOCK, "writes predictions into"),
}


@pytest.mark.parametrize(("act", "name", "work"), WAITS.values(), ids=WAITS)
def test_a_wait_for_another_process_is_said_once(act, name, work, tmp_path):
    messages = []
    is_said = threading.Event()

    def say(message: str) -> None:
        messages.append(message)
        is_said.set()

    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / name)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with other:
        assert other.stdout.readline() == b"held\n"
        waiting = threading.Thread(target=act, args=(tmp_path, say))
        waiting.start()
        was_said = is_said.wait(60)
        is_waiting = waiting.is_alive()
        other.stdin.close()
        waiting.join(60)
    assert (was_said, is_waiting, waiting.is_alive()) == (True, True, False)
    (message,) = messages
    assert message.startswith(f"waiting for another process, which {work}")
    assert message.endswith(f"and holds {tmp_path / name}")


@pytest.mark.parametrize("act", [act for act, _, _ in WAITS.values()], ids=WAITS)
def test_without_another_process_nothing_is_said(act, tmp_path):
    messages = []
    act(tmp_path, messages.append)
    assert messages == []


def test_a_lock_can_be_held_twice_where_that_is_asked_for(tmp_path):
    file = tmp_path / "lock"
    with (
        hold_lock(file, ignore, "works", is_singleton=True),
        hold_lock(file, ignore, "works", is_singleton=True),
    ):
        pass
    with hold_lock(file, ignore, "works"):
        pass
