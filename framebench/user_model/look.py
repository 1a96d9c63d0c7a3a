"""A first look at every strategy, before any times: what it needs, and whether it is right.

An eager step has one process for both. Its peaks are read first, as in a process that does nothing else, and then its steps are
verified from the first weights. What is built by a compiler has two, as in a block: the second finds it compiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from framebench.engine import blocks, recording, runner
from framebench.engine.capacity import fits, free_memory
from framebench.engine.groups import Group
from framebench.engine.timed_process import Arm
from framebench.instruments import nvml
from framebench.records.record import Record
from framebench.suite.case import Case

SHOWN_S = 50.0  # after which the first table is shown with what is in it


@dataclass
class FirstLook:
    """Measure the memory of each strategy and verify it once, before any timing.

    `shown` is called with the records when all are there, before what compiles for minutes, or `SHOWN_S` seconds after
    the command began. `held` is what a process of the baseline took, in bytes.
    """

    run: blocks.Run
    began: float
    held: int
    shown: Callable[[list[Record]], None] = lambda records: None
    found: list[Record] = field(default_factory=list)

    def look_at(self, arms: list[Arm]) -> None:
        """Look at these arms; at what compiles for minutes only if there will be no times."""
        waiting = True
        for some in self.parts([arm for arm in arms if self.run.without_times or not compiles(arm.case)]):
            if waiting and self.found and (time.monotonic() - self.began > SHOWN_S or compiles(some[0].case)):
                self.shown(self.found)
                waiting = False
            self.found += self.each(some) if eager(some[0]) else self.in_a_block(some)
        if waiting and not self.run.without_times:  # else what is shown last is the same
            self.shown(self.found)

    def parts(self, arms: list[Arm]) -> Iterator[list[Arm]]:
        """Yield as many arms as there are cores, if there is memory; those that have one process first."""
        at_once = len(self.run.options.cores())
        for wanted in (True, False):
            alike = [arm for arm in arms if eager(arm) is wanted]
            for i in range(0, len(alike), at_once):
                some = alike[i : i + at_once]
                roomy = fits([self.held], free_memory(), len(some) - 1)
                yield from [some] if roomy else ([arm] for arm in some)

    def each(self, some: list[Arm]) -> list[Record]:
        """Look at these arms side by side, and write their records."""
        records = run_side_by_side(some, self.run)
        for arm, record in zip(some, records, strict=True):
            self.run.write(record, arm)
        return records

    def in_a_block(self, some: list[Arm]) -> list[Record]:
        """Measure these arms as a block without times."""
        options, self.run.options = self.run.options, replace(self.run.options, rounds=0)
        blocks.measure_group(Group(f"look/{some[0].case.id}", tuple(some)), self.run)
        self.run.options = options
        return [record for arm in some for record in self.run.records(arm)[-1:]]


def run_side_by_side(arms: list[Arm], run: blocks.Run) -> list[Record]:
    """Start a process for each arm, all at once, and return their records."""
    blocks.check_mathematics(arms, run)
    load = runner.load_average()
    with ExitStack() as stack:
        alive = []
        for arm in arms:
            scratch = run.scratch / "look" / arm.case.id.replace("/", ".")
            process = runner.MemoryProcess(arm.case, arm.environment, run.options, scratch, part="look")
            stack.callback(process.kill)
            alive.append((arm, process))
        records = []
        for arm, process in alive:
            outcome = process.end(partial(run.listener.phase, arm.case))
            mathematics = run.mathematics_by_arm.get(arm)
            records.append(recording.make_record(run.context(arm, load), outcome, mathematics, part="memory"))
        return records


def compiles(case: Case) -> bool:
    """Say whether a part of the strategy calls a compiler."""
    return any(part.how.startswith("compile") for part in case.parts)


def eager(arm: Arm) -> bool:
    """Say whether one process can be looked at: not on a GPU, whose memory is read from outside while nothing else runs."""
    return arm.case.framework == "torch" and not compiles(arm.case) and not nvml.list_gpus()
