"""Measure cases in blocks, so that their times can be compared.

The variants of a block are processes that are alive at once on one core, and take turns. Equal
processes that run one after the other differ by tens of per cent, since a machine drifts; in turn
they differ by a few. So a ratio is taken within a round of a block, and judged over several blocks,
each of fresh processes. When the rounds are over, a case whose memory was not yet measured in the
session has a process of its own for that.

From `measure` down: `measure_group` asks for the mathematics of the variants (`mathematics.py`),
`run_block` starts their processes and goes through the rounds, and `finish_block` measures the
memory and writes the records.
"""

from __future__ import annotations

import random
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from framebench.engine import mathematics, recording, references, runner
from framebench.engine import page_cache as pages
from framebench.engine.capacity import Capacity, fits, free_memory
from framebench.engine.environments import Environment
from framebench.engine.groups import Group
from framebench.engine.recording import Context
from framebench.engine.runner import RESULTS, CaseOutcome, MemoryProcess, Options
from framebench.engine.timed_process import ReferenceMatmul, TimedProcess, Variant
from framebench.instruments import nvml
from framebench.records import provenance, store
from framebench.records.record import Record, Turns
from framebench.suite.case import Case
from framebench.suite.protocol import Reference
from framebench.suite.result import Mathematics

Item = TypeVar("Item")
MathematicsCheck = Callable[
    [list[Variant], Options, Callable[[Case, str], None]], dict[Variant, Mathematics]
]


class Listener:
    """No-op progress listener; subclass to receive events."""

    def phase(self, case: Case, what: str) -> None:
        """Hear what is done for a case now."""

    def done(self, record: Record) -> None:
        """Hear that a case is measured."""

    def skipped(self, case: Case) -> None:
        """Hear that no more of a case will be measured."""


NOBODY = Listener()


@dataclass
class Run:
    """One run of the suite, as far as it measures: where records go, and what was compiled in it.

    Use as a context.
    """

    id: str
    options: Options
    results: Path = RESULTS
    listener: Listener = field(default_factory=Listener)
    # what float64 says of each variant's strategy
    mathematics_by_variant: dict[Variant, Mathematics] = field(default_factory=dict)
    check_mathematics: MathematicsCheck = mathematics.check

    def __enter__(self) -> Run:
        self.stack = ExitStack()
        self.scratch = Path(
            self.stack.enter_context(tempfile.TemporaryDirectory(prefix="framebench-"))
        )
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    @property
    def without_times(self) -> bool:
        """Say whether only what a loaded machine does not change is measured: whether cases are
        right, and their memory.
        """
        return not self.options.rounds

    @property
    def compiles_alone(self) -> bool:
        """Say whether nothing may be built next to what compiles, since the time of its first step
        is recorded.
        """
        return self.options.first_alone and not self.without_times

    def folder(self, variant: Variant) -> Path:
        """Return the folder of the variant's records."""
        return store.find_folder(
            self.results, provenance.read_machine_name(), variant.environment.name, variant.case
        )

    def unfinished_folder(self, variant: Variant) -> Path:
        """Return the folder of the variant's records whose memory is still to be measured."""
        return store.find_unfinished_folder(
            self.results, provenance.read_machine_name(), variant.environment.name, variant.case
        )

    def records(self, variant: Variant) -> list[Record]:
        """Return what this session has of a variant by now, oldest first."""
        session_records = store.read_session(self.folder(variant), self.id)
        return [
            record
            for record in session_records
            if record.provenance.planted == variant.planted_differences
        ]

    def unfinished(self, variant: Variant) -> list[Record]:
        """Return the records of this session and variant whose memory is still to be measured."""
        unfinished = []
        for record in store.read_unfinished(self.unfinished_folder(variant)):
            is_ours = (
                record.provenance.session == self.id
                and record.provenance.planted == variant.planted_differences
            )
            if is_ours and not self.is_finished(record, variant):
                unfinished.append(record)
        return unfinished

    def is_finished(self, record: Record, variant: Variant) -> bool:
        """Say whether the session has the variant's record of the same block: it was interrupted
        right after it was written.
        """
        place = (record.turns_taken.block, record.turns_taken.arm)
        return any(
            other.turns and (other.turns.block, other.turns.arm) == place
            for other in self.records(variant)
        )

    def write(self, record: Record, variant: Variant) -> None:
        """Write a record and report that it is done. Raises OSError."""
        store.write(record, self.folder(variant))
        if record.turns is not None:
            store.remove_unfinished(record, self.unfinished_folder(variant))
        self.listener.done(record)

    def scratch_of(self, variant: Variant) -> Path:
        """Return where the variant's programs lie once they are compiled.

        Each of the first blocks compiles anew.
        """
        last = self.options.cold_blocks - 1
        block = min(len(self.records(variant)), last) if last else 0
        return (
            self.scratch / variant.environment.name / f"{variant.case.id.replace('/', '.')}.{block}"
        )

    def can_share(self, variant: Variant) -> bool:
        """Say whether it may be built next to another: it has been compiled, or may compile
        there.
        """
        return not self.compiles_alone or self.scratch_of(variant).exists()

    def context(self, variant: Variant, load: float | None) -> Context:
        """Return what a record of the variant tells of the circumstances.

        `load`: the load average before it was measured.
        """
        return Context(
            variant.case,
            variant.environment,
            self.options,
            self.id,
            self.results,
            load,
            variant.planted_differences,
        )


def measure(groups: list[Group], run: Run, blocks: int = 1) -> None:
    """Measure so many blocks of each group: the first of every group, then the second, and so on.

    What the session has already is not measured again. Raises OSError if a record cannot be
    written.
    """
    if run.without_times:
        groups = [join_groups(groups)]
    for number in range(blocks):
        for group in groups:
            measure_group(group, run, number)


def join_groups(groups: list[Group]) -> Group:
    """Join groups whose times are not compared: then processes need not wait for those of another
    group.

    What others are verified against comes first.
    """
    first = [variant for group in groups for variant in group.always]
    others = [variant for group in groups for variant in group.others]
    return Group("without-times", (), tuple(dict.fromkeys(first + others)))


def measure_group(group: Group, run: Run, number: int = 0) -> None:
    """Measure the group's block of this number, or several where memory does not suffice for one.

    What the session has of it is not measured again: what an interruption left is finished first.
    """
    name = f"{run.id}/{group.name}/{number}"
    variants = list(dict.fromkeys([*group.always, *group.others]))
    finish_interrupted(variants, name, run)
    left, sub_block = find_left(variants, name, number, run)
    left = without_wrong_mathematics(left, run)
    while left:
        wanted, later = choose_variants(group, left, run)
        block = run_block(f"{name}.{sub_block}", wanted, len(group.always), run)
        timed = block.timed
        # memory ran out next to others: the answer is what the variant does alone
        for variant in block.crowded:
            sub_block += 1
            timed += run_block(f"{name}.{sub_block}", [variant], 1, run).timed
        sub_block += 1
        for each in timed:
            store.write_unfinished(each.record, run.unfinished_folder(each.variant))
        finish_block(timed, run)
        left = block.left + later


def finish_interrupted(variants: list[Variant], name: str, run: Run) -> None:
    """Measure the memory of those variants that an interrupted session has timed in the block of
    this name.
    """
    for variant in variants:
        interrupted = [
            record for record in run.unfinished(variant) if block_of(record).startswith(f"{name}.")
        ]
        finish_block([TimedVariant(variant, record) for record in interrupted], run)


def find_left(
    variants: list[Variant], name: str, number: int, run: Run
) -> tuple[list[Variant], int]:
    """Return the variants that the session has not measured in the block of this name, and the
    number of its next part.
    """
    blocks_by_variant = {
        variant: {block_of(record) for record in run.records(variant) if record.turns}
        for variant in variants
    }
    parts = {
        block
        for blocks in blocks_by_variant.values()
        for block in blocks
        if block.startswith(f"{name}.")
    }
    left = [variant for variant in variants if parts.isdisjoint(blocks_by_variant[variant])]
    # nothing is compared: what is in another group's block of this number need not be in this one's
    if run.without_times:
        left = [
            variant for variant in left if number not in map(number_of, blocks_by_variant[variant])
        ]
    return left, 1 + max(map(sub_block_of, parts), default=-1)


def block_of(record: Record) -> str:
    """Return the name of a record's block, such as `SESSION/GROUP/NUMBER.SUB_BLOCK`."""
    return record.turns_taken.block


def number_of(block: str) -> int:
    """Return the number in a block's name."""
    return int(block.rpartition("/")[2].partition(".")[0])


def sub_block_of(block: str) -> int:
    """Return the number of the part of a block in its name."""
    return int(block.rpartition(".")[2])


def check_mathematics(variants: list[Variant], run: Run) -> None:
    """Have the mathematics of these variants checked in float64, unless the run knows of them."""
    unknown = [variant for variant in variants if variant not in run.mathematics_by_variant]
    if unknown:
        run.mathematics_by_variant.update(
            run.check_mathematics(unknown, run.options, run.listener.phase)
        )


def without_wrong_mathematics(variants: list[Variant], run: Run) -> list[Variant]:
    """Check the mathematics of these variants in float64, and return those that may be measured.

    A variant whose mathematics is wrong gets its record at once: nothing of it is worth measuring.
    """
    check_mathematics(variants, run)
    measurable = []
    for variant in variants:
        outcome = run.mathematics_by_variant.get(variant)
        if outcome is None or outcome.passed:
            measurable.append(variant)
        elif not run.records(variant):
            run.write(recording.make_wrong_record(run.context(variant, None), outcome), variant)
    return measurable


def choose_variants(
    group: Group, left: list[Variant], run: Run
) -> tuple[list[Variant], list[Variant]]:
    """Return the variants of the next block and those that wait for another.

    Without times nothing is compared: then as many as there are cores, so that little is lost by an
    interruption.
    """
    if run.without_times:
        at_once = len(run.options.cores())
        return left[:at_once], left[at_once:]
    return [*group.always, *(variant for variant in group.others if variant in left)], []


@dataclass
class TimedVariant:
    """A variant whose process for the time has ended, with its record so far: what may be missing
    is its memory.
    """

    variant: Variant
    record: Record
    resident_bytes: int | None = None  # the most that the process has held, where that is known


@dataclass
class Block:
    """What became of the variants of a block."""

    timed: list[TimedVariant]
    left: list[Variant]  # did not fit
    crowded: list[Variant]  # ran out of memory next to others


def run_block(name: str, variants: list[Variant], first: int, run: Run) -> Block:
    """Start the processes of as many variants as fit, have them take turns, and return what became
    of them.

    The `first` variants and one more are tried in any case.
    """
    load = runner.load_average()
    processes: list[TimedProcess] = []
    files: set[Path] = set()
    try:
        start_processes(variants, first, processes, run)
        for process in processes:
            files |= process.files()
        seed = secrets.randbelow(2**31)
        matmul = take_turns(processes, seed, run)
        verify_timed_steps(processes, run)
    finally:
        for process in processes:
            process.kill()
    # kernels on a GPU do not lie in the host's pages
    if not run.without_times and not nvml.list_gpus():
        pages.renew(files)
    outcomes = [outcome_of(process) for process in processes]
    fail_those_verified_against_wrong(processes, outcomes)
    block = Block([], variants[len(processes) :], [])
    variant_names = [process.variant.case.id for process in processes]
    for number, (process, outcome) in enumerate(zip(processes, outcomes)):
        if outcome.status == "oom" and len(processes) > 1 and run.options.memory_limit is None:
            block.crowded.append(process.variant)
            continue
        record = recording.make_record(
            run.context(process.variant, load),
            outcome,
            mathematics=run.mathematics_by_variant.get(process.variant),
            turns=turns_of(process, number, variant_names, name, seed, matmul),
            samples=process.samples,
            has_first_step=times_first_step(process, run),
        )
        block.timed.append(TimedVariant(process.variant, record, outcome.resident_bytes))
    return block


def start_processes(
    variants: list[Variant], first: int, processes: list[TimedProcess], run: Run
) -> None:
    """Start the variants' processes in batches until memory is full, and add them to `processes`.

    The `first` variants and one more are tried in any case. What compiles is alone, since its first
    step is timed; what finds everything compiled is built next to others, each on a core of its
    own.
    """
    capacity = Capacity()
    while len(processes) < len(variants):
        ready = [process for process in processes if process.ready]
        batch: list[TimedProcess] = []
        for variant, core in zip(variants[len(processes) :], run.options.cores()):
            is_tried_in_any_case = len(processes) <= first
            if not is_tried_in_any_case and not capacity.fits_more(ready, 1 + len(batch)):
                break
            if batch and must_wait(variant, batch, processes, run):
                break
            process = TimedProcess(
                variant,
                run.options,
                run.scratch_of(variant),
                partial(run.listener.phase, variant.case),
            )
            processes.append(process)
            batch.append(process)
            process.start(find_reference(variant.case, run, processes), core)
        if not batch:
            return
        for process in batch:
            process.get_ready()
            capacity.enter(process.worker.process.pid if process.worker else None)


def must_wait(
    variant: Variant, batch: list[TimedProcess], processes: list[TimedProcess], run: Run
) -> bool:
    """Say whether a variant must not be built next to those that are being built."""
    if not run.can_share(variant) or (batch[0].is_cold and run.compiles_alone):
        return True
    return waits_for_reference(variant.case, batch, processes, run)


def waits_for_reference(
    case: Case, batch: list[TimedProcess], processes: list[TimedProcess], run: Run
) -> bool:
    """Say whether a case has to be verified against one that is being built."""
    is_built_now = any(process.variant.case.golden_key == case.golden_key for process in batch)
    return is_built_now and references.needed(case) and find_reference(case, run, processes) is None


def find_reference(case: Case, run: Run, processes: list[TimedProcess]) -> Reference | None:
    """Return what the case is verified against where there are no float64 values: a variant of this
    block, or a record.
    """
    alive = [
        (process.variant.case, process.verification)
        for process in processes
        if process.verification
    ]
    records = run.results / "records" / provenance.read_machine_name()
    return references.among(case, alive) or references.find(case, run.id, records)


def take_turns(processes: list[TimedProcess], seed: int, run: Run) -> ReferenceMatmul | None:
    """Go through the rounds: in each the reference matmul, then every variant that is alive, in
    random order.
    """
    alive = [process for process in processes if process.ready]
    if not alive or run.without_times:
        return None
    order = random.Random(seed)
    began = time.monotonic()
    with ReferenceMatmul(run.options, run.scratch) as matmul:
        for number in range(run.options.rounds):
            phase = f"round {number + 1} of {run.options.rounds}, {len(alive)} in turn"
            run.listener.phase(alive[0].variant.case, phase)
            matmul.turn(number)
            for process in order.sample(alive, len(alive)):
                if process.ready and number < process.rounds:
                    process.turn(number, began)
    return matmul


def verify_timed_steps(processes: list[TimedProcess], run: Run) -> None:
    """Have the variants that are alive verify what was timed, each on a core of its own, and wait
    for their results.
    """
    alive = [process for process in processes if process.ready]
    cores = run.options.cores()
    for batch in split(alive, len(cores)):
        for process, core in zip(batch, cores):
            process.finish(core)
        for process in batch:
            process.end()


def split(items: list[Item], at_once: int) -> Iterator[list[Item]]:
    """Yield the items in batches of so many."""
    for start in range(0, len(items), at_once):
        yield items[start : start + at_once]


def outcome_of(process: TimedProcess) -> CaseOutcome:
    """Return the outcome of a process that has ended."""
    assert process.outcome
    process.outcome.seconds = process.seconds
    return process.outcome


def fail_those_verified_against_wrong(
    processes: list[TimedProcess], outcomes: list[CaseOutcome]
) -> None:
    """Turn the verification of a variant into a failed one if what it was verified against came out
    wrong in the end.
    """
    wrong = {
        process.variant.case.id
        for process, outcome in zip(processes, outcomes)
        if not outcome.is_right
    }
    for process, outcome in zip(processes, outcomes):
        against = process.verification.against if process.verification else None
        verification = outcome.result.verification
        if against in wrong and verification is not None:
            reason = f"it was verified against {against}, which came out wrong"
            failed = replace(verification, passed=False, reason=reason)
            outcome.result = replace(outcome.result, verification=failed)


def turns_of(
    process: TimedProcess,
    number: int,
    variants: list[str],
    block: str,
    seed: int,
    matmul: ReferenceMatmul | None,
) -> Turns:
    """Return which turns a variant made in its block; none where it has no times."""
    rounds = process.turn_rounds if process.samples else []
    matmul_seconds = matmul.seconds if matmul else {}
    return Turns(
        block=block,
        arm=number,
        arms=variants,
        seed=seed,
        steps=process.steps,
        round=rounds,
        at_s=process.turn_began_s if process.samples else [],
        reference_s=[matmul_seconds[number] for number in rounds if number in matmul_seconds],
        reference_flop=matmul.flop if matmul else 0.0,
    )


def times_first_step(process: TimedProcess, run: Run) -> bool:
    """Say whether the time of the first step means something: it was alone, and what it compiles
    was not compiled before.
    """
    if run.without_times or not process.is_cold:
        return False
    return run.compiles_alone or not nvml.list_gpus()


def finish_block(timed: list[TimedVariant], run: Run) -> None:
    """Measure the memory that is still missing, and write one record per variant.

    Each record is written as soon as its variant is complete, so an interrupted session resumes at
    the first variant without one.
    """
    for batch in split(timed, memory_processes_at_once(timed, run)):
        with ExitStack() as stack:
            processes = [start_memory_process(each, run, stack) for each in batch]
            for each, process in zip(batch, processes):
                record = each.record
                if process is not None:
                    outcome = process.end(partial(run.listener.phase, each.variant.case))
                    record = recording.add_memory(record, outcome)
                run.write(record, each.variant)


def start_memory_process(timed: TimedVariant, run: Run, stack: ExitStack) -> MemoryProcess | None:
    """Start the process for the variant's memory, if it is still missing.

    The process is gone when the stack closes.
    """
    if not memory_is_missing(timed, run):
        return None
    variant = timed.variant
    process = MemoryProcess(
        variant.case, variant.environment, run.options, run.scratch_of(variant), variant.extra
    )
    stack.callback(process.kill)
    return process


def memory_is_missing(timed: TimedVariant, run: Run) -> bool:
    """Say whether the variant's memory is to be measured: it came out right, and the session has no
    peaks of it yet.
    """
    record = timed.record
    if record.status != "ok" or not run.options.memory:
        return False
    if run.options.peaks_each_block:
        return True
    earlier = [
        other
        for other in run.records(timed.variant)
        if other.turns is None or block_of(other) != block_of(record)
    ]
    return not any(other.peaks for other in earlier)


def memory_processes_at_once(timed: list[TimedVariant], run: Run) -> int:
    """Return how many processes for the memory may be alive at once: one for each core, or one if
    memory is scarce.
    """
    at_once = len(run.options.cores())
    sizes = [each.resident_bytes for each in timed if each.resident_bytes is not None]
    # of an interrupted session: how large they are is not known any more
    if len(sizes) < len(timed):
        return 1
    return at_once if fits([max(sizes, default=0)], free_memory(), at_once) else 1


def not_measured(case: Case, run: Run, environment: Environment) -> Record:
    """Return the record, written once in a session, that tells why this machine cannot measure a
    case.
    """
    variant = Variant(case, environment)
    earlier = run.records(variant)
    if earlier:
        return earlier[-1]
    context = run.context(variant, runner.load_average())
    record = recording.make_unsupported_record(context, runner.unsupported(case))
    run.write(record, variant)
    return record
