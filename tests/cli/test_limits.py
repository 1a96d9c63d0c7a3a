"""A limit of the system on memory or threads ends a command in a sentence, and soon."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import threading
from unittest.mock import Mock

import pytest

from framebench.cli import __main__ as cli
from framebench.engine import installed, shortages
from tests.processes import ROOT, framebench
from tests.sample_records import IN_HERE

SHOW = "from framebench.cli import __main__ as cli; cli.LOADING_S = 20.0; cli.main()"


def show_within(limit_mib: int) -> subprocess.CompletedProcess[str]:
    """Run `framebench show` with this much address space, and with many threads of OpenBLAS."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit_mib * 2**20, limit_mib * 2**20))

    return subprocess.run(
        [sys.executable, "-c", SHOW, "show", *IN_HERE],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "16"},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("limit_mib", [90, 120, 150, 200, 300, 400])
def test_a_small_address_space_ends_a_command_in_a_sentence(limit_mib):
    done = show_within(limit_mib)
    if done.returncode:
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("framebench: ")
        assert "ulimit -v" in line


def test_a_large_address_space_is_enough():
    done = show_within(8 * 2**10)
    assert done.returncode == 0, done.stderr
    assert "checkpoint" in done.stdout


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), shortages.OUT_OF_MEMORY),
        (ImportError("x.so: failed to map segment from shared object"), shortages.OUT_OF_MEMORY),
        (RuntimeError("can't start new thread"), shortages.OUT_OF_THREADS),
    ],
)
def test_what_ran_out_is_said_in_a_sentence(error, message, monkeypatch):
    monkeypatch.setattr(cli, "load_commands", Mock(side_effect=error))
    done = framebench("list")
    assert (done.returncode, done.stderr) == (1, f"framebench: {message}\n")


@pytest.mark.parametrize("error", [ImportError("no module"), RuntimeError("wrong")])
def test_a_fault_of_the_code_is_no_shortage(error, monkeypatch):
    monkeypatch.setattr(cli, "load_commands", Mock(side_effect=error))
    with pytest.raises(type(error), match=str(error)):
        framebench("list")


@pytest.fixture
def allow_threads(monkeypatch):
    """Return a function that lets so many threads start, and returns the list of those started."""
    start = threading.Thread.start

    def allow(allowed: int) -> list[threading.Thread]:
        started: list[threading.Thread] = []

        def start_few(thread: threading.Thread) -> None:
            if len(started) == allowed:
                raise RuntimeError("can't start new thread")
            start(thread)
            started.append(thread)

        monkeypatch.setattr(threading.Thread, "start", start_few)
        return started

    return allow


@pytest.mark.parametrize("allowed", [0, 1, 5])
def test_too_few_threads_for_openblas_end_a_command_before_it_is_loaded(
    allowed, allow_threads, monkeypatch
):
    """OpenBLAS sends SIGINT where it cannot start its threads, which would look like Ctrl-C."""
    for name in shortages.BLAS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    load = Mock()
    monkeypatch.setattr(cli, "run_command_line", load)
    monkeypatch.setattr(shortages.os, "sched_getaffinity", Mock(return_value=set(range(4))))
    started = allow_threads(allowed)
    done = framebench("list")
    assert (done.returncode, done.stderr) == (1, f"framebench: {shortages.OUT_OF_THREADS}\n")
    assert len(started) == allowed
    assert not any(thread.is_alive() for thread in started)
    load.assert_not_called()


def test_a_process_that_cannot_be_started_is_said_in_a_sentence(results, monkeypatch):
    unavailable = BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    monkeypatch.setattr(installed, "find_environments", Mock(side_effect=unavailable))
    done = framebench("run", "transformer/torch/train/fp32/b4/tiny", results=results, code=1)
    assert "no further process can be started, perhaps by a limit (ulimit -u)" in done.stderr
