"""The parent gets the framework's own exception, however it reached the end of the worker."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.protocol import Task
from framebench.suite.user_file import DoesNotApply
from framebench.worker import worker
from framebench.worker.stepping import OverBudget
from framebench.worker.worker import WorkerError, describe_failure
from tests.callbacks import ignore

TASK = Task("transformer/torch/train/fp32/b4/tiny", "memory")


def raise_in_worker(error: Exception, monkeypatch: pytest.MonkeyPatch) -> BaseException:
    """Return what a worker raises whose measurement raises this."""
    idle = SimpleNamespace(
        build=ignore, synchronize=ignore, versions=dict, device=Mock(return_value="cpu")
    )
    monkeypatch.setattr(worker.adapters, "load", Mock(return_value=idle))
    monkeypatch.setattr(worker, "measure_memory", Mock(side_effect=error))
    with pytest.raises(Exception) as raised:  # noqa: PT011
        worker.run(TASK, print, ())
    return raised.value


@pytest.mark.parametrize(
    ("message", "oom"),
    [("CUDA out of memory. Tried to allocate 2 MiB", True), ("shapes differ", False)],
)
def test_message_of_the_framework_decides_whether_memory_ran_out(message, oom, monkeypatch):
    error = raise_in_worker(RuntimeError(message), monkeypatch)
    assert isinstance(error, WorkerError)
    failure = describe_failure(error)
    assert failure["type"] == "RuntimeError"
    assert failure["message"] == message
    assert failure["oom"] == oom
    assert failure["blamed"] == ""


@pytest.mark.parametrize(
    ("error", "flag"),
    [
        (OverBudget("a step takes 9 s"), "over_budget"),
        (IncompatibleStrategies("one and other do not combine"), "no_device"),
        (DoesNotApply("no blocks"), "no_device"),
    ],
)
def test_a_case_with_an_obstacle_does_not_count_as_crashed(error, flag, monkeypatch):
    failure = describe_failure(raise_in_worker(error, monkeypatch))
    flags = [name for name in ("oom", "no_device", "over_budget") if failure[name]]
    assert flags == [flag]
