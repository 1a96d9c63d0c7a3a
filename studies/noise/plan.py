"""Comparisons whose answer is known: equal processes of a case in one block, and some that differ."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from framebench.engine.environments import Environment
from framebench.engine.groups import Group
from framebench.engine.timed_process import Arm
from framebench.models import spec
from framebench.suite.case import Case
from framebench.suite.protocol import HELD
from framebench.suite.strategy import FRAMEWORKS

EQUAL = 4  # processes without a difference: two comparisons that share no process
SPINS = (0.03, 0.05, 0.10, 0.20)  # shares by which steps are made longer
EXTRAS = (0.01, 0.02, 0.05)  # and by which they hold more memory
# Ten cases of each framework, so that there are 60 comparisons of equal arms: each workload, training and evaluation. The
# Transformer's steps are those that tables show; the others last milliseconds, of which a turn has many: a block of eight
# 3-D networks at a published size would take a quarter of an hour.
LONG = (("transformer", "train", "fp32"), ("transformer", "eval", "no_grad"))
SHORT = (
    *((name, *place) for name in ("resnet50", "unet3d") for place in (("train", "fp32"), ("eval", "no_grad"))),
    *((name, "train", "checkpoint") for name in ("resnet50", "unet3d", "transformer")),
    ("transformer", "train", "accumulate"),
)
BLOCKS = 5
# Memory is read at the size that tables show: what equal processes differ by in bytes is much of a peak of a few MiB.
IN_MEMORY = (
    *LONG,
    ("transformer", "train", "checkpoint"),
    ("transformer", "train", "accumulate"),
    ("resnet50", "train", "fp32"),
)
EQUAL_IN_MEMORY = 8


def cases(size: str = "cpu") -> list[Case]:
    """The long ones of this size, the short ones of the smallest; each at the size's base batch."""
    sized = [(place, size) for place in LONG] + [(place, "tiny") for place in SHORT]
    return [
        Case(workload, framework, scenario, strategy, spec.workload(workload).preset(size).base, size)
        for framework in FRAMEWORKS
        for (workload, scenario, strategy), size in sized
    ]


def larger_cases(size: str = "cpu") -> list[Case]:
    """Those whose memory is read."""
    return [
        Case(workload, framework, scenario, strategy, spec.workload(workload).preset(size).base, size)
        for framework in FRAMEWORKS
        for workload, scenario, strategy in IN_MEMORY
    ]


def timed(chosen: Iterable[Case], ready: dict[str, Environment]) -> list[Group]:
    """Equal processes and slowed ones: all of a case must be in one block, whatever memory it takes."""
    return [Group(f"study/{case.id}", tuple(_arms(case, ready[case.framework]))) for case in chosen]


def _arms(case: Case, environment: Environment) -> Iterator[Arm]:
    for _ in range(EQUAL):
        yield Arm(case, environment)
    for spin in SPINS:
        yield Arm(case, environment, spin=spin)


def held(chosen: Iterable[Case], ready: dict[str, Environment]) -> list[Group]:
    """Equal processes, and such that hold more memory."""
    shares = (*(0.0,) * EQUAL_IN_MEMORY, *EXTRAS)
    environments_by_case = {case: ready[case.framework] for case in chosen}
    return [
        Group(f"{HELD}/{c.id}", tuple(Arm(c, where, extra=share) for share in shares))
        for c, where in environments_by_case.items()
    ]


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many other processes that compute all the time, free to run on every core."""
    busy_processes = [multiprocessing.Process(target=compute, args=(os.getpid(),), daemon=True) for _ in range(processes)]
    for process in busy_processes:
        process.start()
    try:
        yield
    finally:
        for process in busy_processes:
            process.terminate()
            process.join()


def compute(parent: int) -> None:
    """Until it is ended, or whoever started it is gone."""
    while os.getppid() == parent:
        sum(range(10**6))
