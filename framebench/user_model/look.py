"""Look at every strategy once before any timing: what it needs, and whether it is right.

An eager step has one process for both. Its peaks are read first, as in a process that does nothing
else, and then its steps are verified from the first weights. What is built by a compiler has two,
as in a block: the second finds it compiled.
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

    `show` is called with the records when all are there, before what compiles for minutes, or
    `SHOWN_S` seconds after the command began. `baseline_bytes` is what a process of the baseline
    took: it decides how many processes run at once.
    """

    run: blocks.Run
    began: float  # of time.monotonic()
    baseline_bytes: int
    show: Callable[[list[Record]], None] = lambda records: None
    records: list[Record] = field(default_factory=list)
    is_shown: bool = False

    def look_at(self, arms: list[Arm]) -> None:
        """Look at these arms; at what compiles for minutes only if there will be no times."""
        if not self.run.without_times:
            arms = [arm for arm in arms if not compiles(arm.case)]
        for batch in self.split(arms):
            is_late = time.monotonic() - self.began > SHOWN_S
            if self.records and (is_late or compiles(batch[0].case)):
                self.show_once()
            if runs_in_one_process(batch[0]):
                self.records += self.measure_together(batch)
            else:
                self.records += self.measure_as_block(batch)
        if not self.run.without_times:  # else what is shown last is the same
            self.show_once()

    def show_once(self) -> None:
        """Show the records that are there, if nothing was shown before."""
        if not self.is_shown:
            self.is_shown = True
            self.show(self.records)

    def split(self, arms: list[Arm]) -> Iterator[list[Arm]]:
        """Yield the arms that are looked at together, those that have one process first.

        They are as many as there are cores, or one where there is no memory for more.
        """
        cores = len(self.run.options.cores())
        alone = [arm for arm in arms if runs_in_one_process(arm)]
        others = [arm for arm in arms if not runs_in_one_process(arm)]
        for alike in (alone, others):
            for start in range(0, len(alike), cores):
                batch = alike[start : start + cores]
                if fits([self.baseline_bytes], free_memory(), len(batch) - 1):
                    yield batch
                else:
                    yield from ([arm] for arm in batch)

    def measure_together(self, arms: list[Arm]) -> list[Record]:
        """Measure these arms side by side, a process for each, and write their records."""
        records = run_side_by_side(arms, self.run)
        for arm, record in zip(arms, records, strict=True):
            self.run.write(record, arm)
        return records

    def measure_as_block(self, arms: list[Arm]) -> list[Record]:
        """Measure these arms as a block without times."""
        options = self.run.options
        self.run.options = replace(options, rounds=0)
        blocks.measure_group(Group(f"look/{arms[0].case.id}", tuple(arms)), self.run)
        self.run.options = options
        newest = []
        for arm in arms:
            newest += self.run.records(arm)[-1:]  # none where the block was ended early
        return newest


def run_side_by_side(arms: list[Arm], run: blocks.Run) -> list[Record]:
    """Start a process for each arm, all at once, and return their records."""
    blocks.check_mathematics(arms, run)
    load = runner.load_average()
    with ExitStack() as stack:
        processes = []
        for arm in arms:
            scratch = run.scratch / "look" / arm.case.id.replace("/", ".")
            process = runner.MemoryProcess(
                arm.case,
                arm.environment,
                run.options,
                scratch,
                part="look",
            )
            stack.callback(process.kill)
            processes.append(process)
        records = []
        for arm, process in zip(arms, processes):
            outcome = process.end(partial(run.listener.phase, arm.case))
            mathematics = run.mathematics_by_arm.get(arm)
            context = run.context(arm, load)
            records.append(recording.make_record(context, outcome, mathematics, part="memory"))
        return records


def compiles(case: Case) -> bool:
    """Return whether a part of the strategy calls a compiler."""
    return any(part.how.startswith("compile") for part in case.parts)


def runs_in_one_process(arm: Arm) -> bool:
    """Return whether one process can be both measured and verified.

    That is never so on a GPU, whose memory is read from outside while nothing else runs.
    """
    return arm.case.framework == "torch" and not compiles(arm.case) and not nvml.list_gpus()
