"""A worker is built, timed and verified on the cores that it is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from framebench.engine.environments import ensure
from framebench.engine.runner import DEFAULT_OPTIONS, make_worker_variables
from framebench.engine.supervisor import Worker
from framebench.suite.case import Case

CASE = Case.from_id("transformer/torch/eval/no_grad/b4/tiny")


@pytest.fixture
def two_cores() -> Iterator[None]:
    """Give the test the machine's cores, also where tests that run at once keep to one each."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    yield
    os.sched_setaffinity(0, before)


def read_thread_affinities(pid: int) -> set[frozenset[int]]:
    """Return the different sets of cores that the threads of a process may use."""
    affinities = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        affinities.add(frozenset(os.sched_getaffinity(int(thread.name))))
    return affinities


class AffinityLog:
    """The cores that a worker's threads may use at the beginning of each phase."""

    def __init__(self) -> None:
        self.pid = 0
        self.by_phase: dict[str, set[frozenset[int]]] = {}

    def on_phase(self, phase: str) -> None:
        self.by_phase[phase] = read_thread_affinities(self.pid)


@pytest.mark.usefixtures("two_cores")
@pytest.mark.slow
def test_each_stage_of_a_worker_runs_on_its_core():
    """The third is the first one again where there are two."""
    environment = ensure("torch")
    timed, other = DEFAULT_OPTIONS.list_cores()[:2]
    worker = Worker(
        environment,
        "framebench.worker.worker",
        DEFAULT_OPTIONS.make_task(CASE, "time", core_until_ready=other).as_dict(),
        make_worker_variables(environment, CASE, "time", DEFAULT_OPTIONS),
        live=True,
    )
    log = AffinityLog()
    log.pid = worker.process.pid

    message = worker.receive(log.on_phase, 120)
    assert message is not None, worker.read_outcome()
    assert "ready" in message, message
    assert log.by_phase["build"] == {frozenset({other})}

    assert read_thread_affinities(log.pid) == {frozenset({timed})}
    worker.send({"turn": 1})
    assert worker.receive(log.on_phase, 60)

    worker.send({"finish": True, "core": other})
    outcome = worker.end(log.on_phase, 60)
    assert outcome.status == "ok"
    assert outcome.answer["origin"]["core"] == timed
    assert log.by_phase["verification of what was timed"] == {frozenset({other})}
