"""A run on the GPUs of one machine: a unit at a time on each, with cores of its own."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from framebench.cluster import gpus
from framebench.cluster.gpus import Gpu
from framebench.cluster.units import NODES, make_units
from framebench.engine.environments import SetupError
from framebench.engine.request import RunRequest
from framebench.engine.runner import Options
from framebench.records import store
from framebench.suite.selectors import select
from tests.processes import fake_environment, framebench

CASES = ("transformer/torch/{train/fp32,eval/no_grad}/b4/tiny", "resnet50/torch/train/fp32/b4/tiny")
REQUEST = RunRequest(CASES, None, Options(rounds=0), "/some/python", blocks=2)
CORES = frozenset(os.sched_getaffinity(0))


def list_units() -> list[RunRequest]:
    return make_units(REQUEST, [case for selector in CASES for case in select(selector)])


def test_each_gpu_measures_one_unit_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    units = list_units()
    measured: list[RunRequest] = []
    busy: dict[str, int] = {"0": 0, "1": 0}
    most_at_once: list[int] = []
    lock = threading.Lock()

    def run_unit(unit: RunRequest, gpu: Gpu, results: Path) -> int:
        with lock:
            assert busy[gpu.name] == 0
            busy[gpu.name] += 1
            most_at_once.append(sum(busy.values()))
        time.sleep(0.02)
        with lock:
            busy[gpu.name] -= 1
            measured.append(unit)
        return 0

    monkeypatch.setattr(gpus, "run_unit", run_unit)
    gpus.measure(units, [Gpu("0", CORES), Gpu("1", CORES)], tmp_path, lambda _: None)

    assert sorted(unit.named for unit in measured) == sorted(unit.named for unit in units)
    assert max(most_at_once) == 2


def test_after_an_interruption_no_other_unit_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The other GPU ends the unit that it is at."""
    begun: list[str] = []

    def run_unit(unit: RunRequest, gpu: Gpu, results: Path) -> int:
        begun.append(gpu.name)
        if gpu.name == "0":
            time.sleep(0.1)  # until the other one is at work
            raise KeyboardInterrupt
        time.sleep(0.3)
        return 0

    monkeypatch.setattr(gpus, "run_unit", run_unit)
    units = list_units()
    assert len(units) > 3
    with pytest.raises(KeyboardInterrupt):
        gpus.measure(units, [Gpu("0", CORES), Gpu("1", CORES)], tmp_path, lambda _: None)
    assert sorted(begun) == ["0", "1"]


@pytest.mark.parametrize(
    ("variable", "names"), [("2,3", ["2", "3"]), ("GPU-a1", ["GPU-a1"]), (None, ["0", "1", "2"])]
)
def test_the_gpus_are_those_that_are_visible(
    variable: str | None, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(gpus.VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(gpus.VARIABLE, variable)
    monkeypatch.setattr(gpus.nvml, "list_gpus", lambda: ("H100",) * 3)
    assert [gpu.name for gpu in gpus.list_gpus()] == names


def test_gpus_share_no_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpus.VARIABLE, "0,1,2")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    shares = [gpu.cores for gpu in gpus.list_gpus()]
    assert [len(share) for share in shares] == [3, 3, 2]
    assert frozenset().union(*shares) == frozenset(range(8))


@pytest.mark.parametrize("variable", ["", None])
def test_a_machine_without_a_gpu_is_answered(
    variable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(gpus.VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(gpus.VARIABLE, variable)
    monkeypatch.setattr(gpus.nvml, "list_gpus", lambda: ())
    with pytest.raises(SetupError, match="framebench doctor"):
        gpus.list_gpus()


def test_units_are_measured_and_their_records_collected(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of ours plays the framework's part."""
    python = fake_environment("engine/failing_worker.py", tmp_path).python
    monkeypatch.setenv(gpus.VARIABLE, "0,1")
    done = framebench(
        "run",
        "transformer/torch/{train/fp32,eval/no_grad}/b4/tiny",
        *("--on", "gpus", "--env", str(python), "--rounds", "2", "--results", str(results)),
    )
    assert "2 units on 2 GPUs: 0, 1" in done.stderr
    assert "2 of 2 units are done, 2 records were added" in done.stderr
    assert {folder.name for folder in (results / NODES).iterdir()} == {"gpu-0", "gpu-1"}
    assert len(list(store.read_all(results))) == 2


def test_an_interpreter_must_be_named(results: Path) -> None:
    """The pinned builds are for the CPU."""
    done = framebench(
        "run", "transformer/torch/train/fp32/b4/tiny", "--on", "gpus", "--results", str(results)
    )
    assert done.returncode == 2
    assert "--env installed" in done.stderr
