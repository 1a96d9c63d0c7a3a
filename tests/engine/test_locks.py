"""Whoever waits for a lock of another process says once what it waits for."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

from framebench.cluster.collect import collect
from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.suite.case import Case

HOLD = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def hold_in_another_process(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Let another process hold a lock until its standard input is closed."""
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout.readline() == b"held\n"
        yield other


def test_a_wait_for_another_process_is_said_once(tmp_path):
    messages = []
    is_said = threading.Event()

    def say(message: str) -> None:
        messages.append(message)
        is_said.set()

    with hold_in_another_process(tmp_path / ".collect.lock") as other:
        waiting = threading.Thread(target=collect, args=([], tmp_path), kwargs={"say": say})
        waiting.start()
        was_said = is_said.wait(60)
        is_waiting = waiting.is_alive()
        other.stdin.close()
        waiting.join(60)
    assert (was_said, is_waiting, waiting.is_alive()) == (True, True, False)
    (message,) = messages
    assert message.startswith("waiting for another process, which collects into")
    assert message.endswith(f"and holds {tmp_path / '.collect.lock'}")


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
