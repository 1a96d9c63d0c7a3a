"""Whoever waits for a lock of another process says once what it waits for."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from framebench.cluster.collect import collect
from framebench.devices.plans import store
from framebench.engine import environments
from framebench.engine.environments import Environment, Say
from framebench.suite.case import Case
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


@contextmanager
def hold_in_another_process(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Let another process hold a lock until its standard input is closed."""
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout.readline() == b"held\n"
        yield other


@pytest.mark.parametrize(("act", "name", "work"), WAITS.values(), ids=WAITS)
def test_a_wait_for_another_process_is_said_once(act, name, work, tmp_path):
    messages = []
    is_said = threading.Event()

    def say(message: str) -> None:
        messages.append(message)
        is_said.set()

    with hold_in_another_process(tmp_path / name) as other:
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


def test_kernels_that_another_process_compiles_are_waited_for_and_not_compiled_again(
    tmp_path, monkeypatch
):
    environment = Environment("jittor", "1.3.11.0", tmp_path / "jittor" / "bin" / "python")
    environment.folder.mkdir()
    compile_kernels = Mock()
    monkeypatch.setattr(environments, "run_setup", compile_kernels)
    case = Case.from_id("transformer/jittor/train/fp32/b4/tiny")
    is_said = threading.Event()
    messages = []

    def say(message: str) -> None:
        messages.append(message)
        is_said.set()

    with hold_in_another_process(tmp_path / "jittor.lock") as other:
        waiting = threading.Thread(target=environments.warm, args=(environment, [case], say))
        waiting.start()
        was_said = is_said.wait(60)
        (environment.folder / environments.WARM).write_text("transformer/train/fp32\n")
        other.stdin.close()
        waiting.join(60)
    assert was_said
    assert "which builds jittor 1.3.11.0 or compiles its kernels and holds" in messages[0]
    compile_kernels.assert_not_called()
