"""Look at every strategy once before any timing: what it needs, and whether it is right.

An eager step has one process for both. Its peaks are read first, as in a process that does nothing
else, and then its steps are verified from the first weights. What is built by a compiler has two,
as in a block: the second finds it compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from framebench.engine import blocks, recording, runner
from framebench.engine.capacity import fits, read_free_memory
from framebench.engine.groups import Group
from framebench.engine.timed_process import Variant
from framebench.instruments import nvml
from framebench.records.record import Record
from framebench.user_model.measure import Deadline


def take_first_look(
    variants: list[Variant],
    run: blocks.Run,
    baseline_bytes: int,
    show: Callable[[list[Record]], None],
    deadline: Deadline,
) -> None:
    """Measure the memory of each variant and verify it once; without times also what compiles.

    What an interrupted session has looked at is not looked at again. `show` gets the records before
    what takes minutes, compilers or times, if there is time for any of it. `baseline_bytes` is what
    a process of the baseline took: it decides how many processes run at once.
    """
    eager = [variant for variant in variants if not variant.case.strategy_spec.compiles]
    compiled = [variant for variant in variants if variant.case.strategy_spec.compiles]
    records = look_at(eager, run, baseline_bytes, deadline)
    next_ones = compiled[:1] if run.without_times else variants
    if next_ones and deadline.has_time(next_ones):  # else what is shown last is the same
        show(records)
    if run.without_times:
        look_at(compiled, run, baseline_bytes, deadline)


def look_at(
    variants: list[Variant],
    run: blocks.Run,
    baseline_bytes: int,
    deadline: Deadline,
) -> list[Record]:
    """Measure the memory of these variants, verify them, and return their records.

    As many run at once as there are cores, or one at a time where there is no memory for more.
    `baseline_bytes` is what each may take. More are measured only while the
    deadline allows it.
    """
    at_once = len(run.options.list_cores())
    if not fits([baseline_bytes], read_free_memory(), at_once - 1):
        at_once = 1
    records: list[Record] = []
    remaining = []
    for variant in variants:
        measured = run.get_records(variant)[-1:]
        records += measured
        if not measured:
            remaining.append(variant)
    alone = [variant for variant in remaining if runs_in_one_process(variant)]
    for start in range(0, len(alone), at_once):
        together = alone[start : start + at_once]
        if not deadline.allows(together):
            return records
        records += run_side_by_side(together, run)
    others = [variant for variant in remaining if not runs_in_one_process(variant)]
    if others:
        options = run.options
        run.options = replace(options, rounds=0)
        try:
            for start in range(0, len(others), at_once):
                together = others[start : start + at_once]
                if not deadline.allows(together):
                    break
                group = Group(f"look/{together[0].case.id}", tuple(together))
                blocks.measure_group(group, run)
        finally:
            run.options = options
    for variant in others:
        records += run.get_records(variant)[-1:]  # none where the block was ended early
    return records


def run_side_by_side(variants: list[Variant], run: blocks.Run) -> list[Record]:
    """Start a process for each variant, all at once, and write and return their records."""
    blocks.check_mathematics(variants, run)
    load = runner.read_load_average()
    with ExitStack() as stack:
        processes = []
        for variant in variants:
            scratch = run.scratch / "look" / variant.case.id.replace("/", ".")
            process = runner.MemoryProcess(variant, run.options, scratch, part="look")
            stack.callback(process.kill)
            processes.append(process)
        records = []
        for variant, process in zip(variants, processes):
            outcome = process.end(partial(run.listener.on_phase, variant.case))
            mathematics = run.mathematics_by_variant.get(variant)
            context = run.make_context(variant, load)
            records.append(recording.make_record(context, outcome, mathematics, part="memory"))
    for variant, record in zip(variants, records):
        run.write(record, variant)
    return records


def runs_in_one_process(variant: Variant) -> bool:
    """Return whether one process can be both measured and verified.

    One process never suffices on a GPU, whose memory is read from outside while nothing else runs.
    """
    is_eager = variant.case.framework == "torch" and not variant.case.strategy_spec.compiles
    return is_eager and not nvml.list_gpus()
