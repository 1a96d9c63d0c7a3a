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
from framebench.engine.capacity import fits, read_free_memory
from framebench.engine.groups import Group
from framebench.engine.timed_process import Variant
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

    def look_at(self, variants: list[Variant]) -> None:
        """Look at these variants; at what compiles for minutes only if there will be no times."""
        if not self.run.without_times:
            variants = [variant for variant in variants if not compiles(variant.case)]
        for batch in self.split(variants):
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

    def split(self, variants: list[Variant]) -> Iterator[list[Variant]]:
        """Yield the variants that are looked at together, those that have one process first.

        They are as many as there are cores, or one where there is no memory for more.
        """
        cores = len(self.run.options.list_cores())
        alone = [variant for variant in variants if runs_in_one_process(variant)]
        others = [variant for variant in variants if not runs_in_one_process(variant)]
        for alike in (alone, others):
            for start in range(0, len(alike), cores):
                batch = alike[start : start + cores]
                if fits([self.baseline_bytes], read_free_memory(), len(batch) - 1):
                    yield batch
                else:
                    yield from ([variant] for variant in batch)

    def measure_together(self, variants: list[Variant]) -> list[Record]:
        """Measure these variants side by side, a process for each, and write their records."""
        records = run_side_by_side(variants, self.run)
        for variant, record in zip(variants, records, strict=True):
            self.run.write(record, variant)
        return records

    def measure_as_block(self, variants: list[Variant]) -> list[Record]:
        """Measure these variants as a block without times."""
        options = self.run.options
        self.run.options = replace(options, rounds=0)
        blocks.measure_group(Group(f"look/{variants[0].case.id}", tuple(variants)), self.run)
        self.run.options = options
        newest = []
        for variant in variants:
            newest += self.run.records(variant)[-1:]  # none where the block was ended early
        return newest


def run_side_by_side(variants: list[Variant], run: blocks.Run) -> list[Record]:
    """Start a process for each variant, all at once, and return their records."""
    blocks.check_mathematics(variants, run)
    load = runner.read_load_average()
    with ExitStack() as stack:
        processes = []
        for variant in variants:
            scratch = run.scratch / "look" / variant.case.id.replace("/", ".")
            process = runner.MemoryProcess(
                variant.case,
                variant.environment,
                run.options,
                scratch,
                part="look",
            )
            stack.callback(process.kill)
            processes.append(process)
        records = []
        for variant, process in zip(variants, processes):
            outcome = process.end(partial(run.listener.phase, variant.case))
            mathematics = run.mathematics_by_variant.get(variant)
            context = run.context(variant, load)
            records.append(recording.make_record(context, outcome, mathematics, part="memory"))
        return records


def compiles(case: Case) -> bool:
    """Return whether a part of the strategy calls a compiler."""
    return any(part.how.startswith("compile") for part in case.parts)


def runs_in_one_process(variant: Variant) -> bool:
    """Return whether one process can be both measured and verified.

    That is never so on a GPU, whose memory is read from outside while nothing else runs.
    """
    return variant.case.framework == "torch" and not compiles(variant.case) and not nvml.list_gpus()
