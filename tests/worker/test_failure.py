"""What the parent is told of an exception: the framework's own, however it reached the end of the
worker.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.protocol import Task
from framebench.suite.user_file import DoesNotApply
from framebench.worker import worker
from framebench.worker.stepping import OverBudget
from framebench.worker.worker import Abandoned, NoDevice, WorkerError, describe_failure

TASK = Task("transformer/torch/train/fp32/b4/tiny", "memory")


class Idle(SimpleNamespace):
    """An adapter of no framework."""

    def build(self) -> None: ...

    def synchronize(self) -> None: ...

    def versions(self) -> dict[str, str]:
        return {}

    def device(self) -> str:
        return "cpu"


def ended(error: Exception, monkeypatch: pytest.MonkeyPatch) -> BaseException:
    """What comes out of a worker whose measurement raises this."""

    def measure(*_: object) -> Any:
        raise error

    monkeypatch.setattr(worker.adapters, "load", lambda case: Idle())
    monkeypatch.setattr(worker, "measure_memory", measure)
    with pytest.raises(Exception) as raised:  # noqa: PT011
        worker.run(TASK, lambda message: None, ())
    return raised.value


@pytest.mark.parametrize(
    ("said", "oom"),
    [("CUDA out of memory. Tried to allocate 2 MiB", True), ("shapes differ", False)],
)
def test_memory_that_ran_out_is_told_of_the_frameworks_exception(
    said: str, oom: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ended(RuntimeError(said), monkeypatch)
    assert isinstance(error, WorkerError)
    assert (told := describe_failure(error))["type"] == "RuntimeError"
    assert (told["message"], told["oom"], told["blamed"]) == (said, oom, "")


@pytest.mark.parametrize(
    ("error", "flag"),
    [
        (OverBudget("a step takes 9 s"), "over_budget"),
        (IncompatibleStrategies("one and other do not combine"), "no_device"),
        (DoesNotApply("no blocks"), "no_device"),
    ],
)
def test_what_a_case_cannot_help_is_no_crash(
    error: Exception, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: Any = describe_failure(ended(error, monkeypatch))
    assert {name for name in ("oom", "no_device", "over_budget") if told[name]} == {flag}


def test_whoever_is_abandoned_has_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(ended(Abandoned(), monkeypatch), Abandoned)


def test_what_is_raised_before_the_case_is_built_is_told_as_it_is() -> None:
    assert describe_failure(MemoryError("the limit is too small"))["oom"]
    assert describe_failure(NoDevice("needs a GPU"))["no_device"]
