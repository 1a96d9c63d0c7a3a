"""Comparisons whose answer is known: equal processes of a case in one block, and some that
differ.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from framebench.engine.environments import Environment
from framebench.engine.groups import Group
from framebench.engine.timed_process import Variant
from framebench.models import spec
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from studies.noise.planting import plant

EQUAL = 4  # processes without a difference: two comparisons that share no process
SPINS = (0.03, 0.05, 0.10, 0.20)  # shares by which steps are made longer
EXTRAS = (0.01, 0.02, 0.05)  # and by which they hold more memory
# Ten cases of each framework, so that there are 60 comparisons of equal variants: each workload,
# training and evaluation. The Transformer's steps are those that tables show; the others last
# milliseconds, of which a turn has many: a block of eight 3-D networks at a published size would
# take a quarter of an hour.
LONG = (("transformer", "train", "fp32"), ("transformer", "eval", "no_grad"))
SHORT = (
    ("resnet50", "train", "fp32"),
    ("resnet50", "eval", "no_grad"),
    ("unet3d", "train", "fp32"),
    ("unet3d", "eval", "no_grad"),
    ("resnet50", "train", "checkpoint"),
    ("unet3d", "train", "checkpoint"),
    ("transformer", "train", "checkpoint"),
    ("transformer", "train", "accumulate"),
)
BLOCKS = 5
# Memory is read at the size that tables show: what equal processes differ by in bytes is much of a
# peak of a few MiB.
IN_MEMORY = (
    *LONG,
    ("transformer", "train", "checkpoint"),
    ("transformer", "train", "accumulate"),
    ("resnet50", "train", "fp32"),
)
EQUAL_IN_MEMORY = 8
MEMORY_GROUP = "study-memory"  # begins the names of the blocks that are for memory


def cases(size: str = "cpu") -> list[Case]:
    """Return the cases whose step times are compared: long steps of this size, short ones of the
    smallest.
    """
    cases = []
    for framework in FRAMEWORKS:
        cases += make_cases(framework, LONG, size)
        cases += make_cases(framework, SHORT, "tiny")
    return cases


def larger_cases(size: str = "cpu") -> list[Case]:
    """Return the cases whose memory is compared."""
    cases = []
    for framework in FRAMEWORKS:
        cases += make_cases(framework, IN_MEMORY, size)
    return cases


def make_cases(framework: str, places: Iterable[tuple[str, str, str]], size: str) -> list[Case]:
    """Return a framework's cases of workload, scenario and strategy, at the size's base batch."""
    cases = []
    for workload, scenario, strategy in places:
        batch = spec.load_workload(workload).preset(size).base
        cases.append(Case(workload, framework, scenario, strategy, batch, size))
    return cases


def timed(chosen: Iterable[Case], ready: dict[str, Environment], scripts: Path) -> list[Group]:
    """Return a group of equal and slowed processes for each case.

    They share a block, whatever memory it takes. `scripts` is the folder that `plant` writes into.
    """
    groups = []
    for case in chosen:
        environment = ready[case.framework]
        equal = [Variant(case, environment) for _ in range(EQUAL)]
        slowed = [Variant(case, plant(environment, scripts, spin=share)) for share in SPINS]
        groups.append(Group(f"study/{case.id}", (*equal, *slowed)))
    return groups


def held(chosen: Iterable[Case], ready: dict[str, Environment], scripts: Path) -> list[Group]:
    """Return a group of equal processes and of such that hold more memory for each case.

    `scripts` is the folder that `plant` writes into.
    """
    groups = []
    for case in chosen:
        environment = ready[case.framework]
        equal = [Variant(case, environment) for _ in range(EQUAL_IN_MEMORY)]
        larger = [Variant(case, plant(environment, scripts, extra=share)) for share in EXTRAS]
        groups.append(Group(f"{MEMORY_GROUP}/{case.id}", (*equal, *larger)))
    return groups


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many other processes computing on any core until the context ends."""
    busy_processes = [
        multiprocessing.Process(target=compute, args=(os.getpid(),), daemon=True)
        for _ in range(processes)
    ]
    for process in busy_processes:
        process.start()
    try:
        yield
    finally:
        for process in busy_processes:
            process.terminate()
            process.join()


def compute(parent: int) -> None:
    """Compute until this process is ended, or its parent is gone."""
    while os.getppid() == parent:
        sum(range(10**6))
