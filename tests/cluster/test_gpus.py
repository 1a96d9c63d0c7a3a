"""A run on the GPUs of one machine: a unit at a time on each, with cores of its own."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from unittest.mock import Mock

import psutil
import pytest

from framebench.cluster import gpus
from framebench.cluster.gpus import AssignedGpu
from framebench.cluster.units import NODES
from framebench.engine.environments import SetupError
from framebench.engine.request import RunRequest
from framebench.records import store
from tests.callbacks import ignore
from tests.processes import COMMAND, framebench

UNITS = [RunRequest(("transformer/torch/train/fp32/b4/tiny",), block=block) for block in range(6)]
GPUS = [AssignedGpu("0", frozenset({0})), AssignedGpu("1", frozenset({0}))]


def test_each_gpu_measures_one_unit_at_a_time(monkeypatch, tmp_path):
    measured = []
    busy = set()
    both_are_busy = threading.Barrier(len(GPUS))

    def run_unit(unit, gpu, results, interrupted):
        assert gpu.name not in busy
        busy.add(gpu.name)
        both_are_busy.wait(60)  # else the barrier breaks, and the test fails
        busy.remove(gpu.name)
        measured.append(unit.session_name)
        return 0

    monkeypatch.setattr(gpus, "run_unit", run_unit)
    gpus.measure(UNITS, GPUS, tmp_path, ignore)
    assert sorted(measured) == sorted(unit.session_name for unit in UNITS)


def test_after_an_interruption_no_other_unit_begins(monkeypatch, tmp_path):
    """The other GPU is told to end the unit that it is measuring."""
    begun = []
    both_have_begun = threading.Barrier(len(GPUS))

    def run_unit(unit, gpu, results, interrupted):
        begun.append(gpu.name)
        both_have_begun.wait(60)
        if gpu.name == "0":
            raise KeyboardInterrupt
        assert interrupted.wait(60)
        return 130

    monkeypatch.setattr(gpus, "run_unit", run_unit)
    with pytest.raises(KeyboardInterrupt):
        gpus.measure(UNITS, GPUS, tmp_path, ignore)
    assert sorted(begun) == ["0", "1"]


@pytest.mark.parametrize(
    ("variable", "names"), [("2,3", ["2", "3"]), ("GPU-a1", ["GPU-a1"]), (None, ["0", "1", "2"])]
)
def test_visible_gpus_share_no_core(variable, names, monkeypatch):
    monkeypatch.delenv(gpus.VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(gpus.VARIABLE, variable)
    monkeypatch.setattr(gpus.nvml, "list_gpus", Mock(return_value=("H100",) * 3))
    monkeypatch.setattr(os, "sched_getaffinity", Mock(return_value=set(range(8))))
    listed = gpus.list_gpus()
    cores = []
    for gpu in listed:
        cores += gpu.cores
    assert [gpu.name for gpu in listed] == names
    assert sorted(cores) == list(range(8))


def test_a_machine_without_a_gpu_is_answered(monkeypatch):
    monkeypatch.setenv(gpus.VARIABLE, "")
    with pytest.raises(SetupError, match="framebench doctor"):
        gpus.list_gpus()


def test_units_are_measured_and_their_records_collected(fake_worker, results, monkeypatch):
    monkeypatch.setenv(gpus.VARIABLE, "0,1")
    cases = "transformer/torch/{train/fp32,eval/no_grad}/b4/tiny"
    options = ("--env", fake_worker.python, "--rounds", "2", "--results", results)
    done = framebench("run", cases, "--on", "gpus", *options)
    assert "2 units on 2 GPUs: 0, 1" in done.stderr
    assert "2 of 2 units are done, 2 records were added" in done.stderr
    assert {folder.name for folder in (results / NODES).iterdir()} == {"gpu-0", "gpu-1"}
    assert len(list(store.read_all(results))) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_units_end_with_their_run(number, fake_worker, results, tmp_path, monkeypatch):
    """They do so also if the run is ended by SIGKILL, and can end nobody itself."""
    event_log = tmp_path / "event_log"
    monkeypatch.setenv("EVENT_LOG", str(event_log))
    monkeypatch.setenv("FAKE_FAILURE", "hang")
    monkeypatch.setenv(gpus.VARIABLE, "0,1")
    cases = "transformer/torch/{train/fp32,eval/no_grad}/b4/tiny"
    options = ("--env", fake_worker.python, "--results", results)
    run = subprocess.Popen(
        [*COMMAND, "run", cases, "--on", "gpus", *options], stderr=subprocess.DEVNULL
    )
    descendants = []
    try:
        deadline = time.monotonic() + 300
        while not event_log.exists() or len(event_log.read_text().splitlines()) < 2:
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        descendants = psutil.Process(run.pid).children(recursive=True)
        assert len(descendants) >= 4, "two units, each with a worker"
        run.send_signal(number)
        assert run.wait(120) == (-number if number == signal.SIGKILL else 130)
        _, left = psutil.wait_procs(descendants, timeout=60)
        assert left == []
    finally:
        run.kill()
        run.wait()
        for process in descendants:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def test_a_run_on_gpus_must_name_its_interpreter(results):
    """The pinned builds are for the CPU."""
    case = "transformer/torch/train/fp32/b4/tiny"
    done = framebench("run", case, "--on", "gpus", results=results, code=2)
    assert "--env installed" in done.stderr
