"""Measure cases in blocks, so that their times can be compared.

The variants of a block are processes that are alive at once on one core, and take turns. Equal
processes that run one after the other differ by tens of per cent, since a machine drifts; if they
take turns, they differ by a few. So a ratio is taken within a round of a block, and judged over
several blocks, each of fresh processes. After the rounds the memory of each case is measured in a
process of its own, once in a session.

`measure` calls `measure_group` for each block. This has the mathematics of the variants checked
(`mathematics.py`). Then `run_block` starts their processes and goes through the rounds, and
`finish_block` measures the memory and writes the records.
"""

from __future__ import annotations

import random
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from framebench.engine import (
    free_memory,
    mathematics,
    recording,
    references,
    runner,
    unfinished,
)
from framebench.engine import page_cache as pages
from framebench.engine.capacity import Capacity, fits, read_free_memory
from framebench.engine.environments import Environment
from framebench.engine.groups import Group
from framebench.engine.recording import Context
from framebench.engine.runner import RESULTS, CaseOutcome, MemoryProcess, Options
from framebench.engine.timed_process import ReferenceMatmul, TimedProcess, Variant
from framebench.engine.unfinished import UnfinishedRecord
from framebench.instruments import nvml
from framebench.records import provenance, store
from framebench.records.record import Record
from framebench.records.record_parts import Turns
from framebench.suite.case import Case
from framebench.suite.protocol import Reference, VerifiedBlock
from framebench.suite.result import Mathematics
from framebench.suite.sequences import cut_into_batches

MathematicsCheck = Callable[
    [list[Variant], Options, Callable[[Case, str], None]], dict[Variant, Mathematics]
]


class Listener:
    """No-op progress listener; subclass to receive events."""

    def on_phase(self, case: Case, what: str) -> None:
        """Receive the phase that a case is in, in words."""

    def on_done(self, record: Record) -> None:
        """Receive the record of a case that was measured."""

    def on_skipped(self, case: Case) -> None:
        """Receive a case whose remaining blocks will not be measured."""


SILENT = Listener()


@dataclass
class Run:
    """One run of the suite: the folder of its records, its settings, and the checked mathematics.

    Use as a context: programs are compiled into a folder that is removed at its end.
    """

    id: str
    options: Options
    results: Path = RESULTS
    listener: Listener = field(default_factory=Listener)
    # whether each variant's strategy is right in float64
    mathematics_by_variant: dict[Variant, Mathematics] = field(default_factory=dict)
    check_mathematics: MathematicsCheck = mathematics.check

    def __enter__(self) -> Run:
        """Make the temporary folder of the run's processes."""
        self.folder = tempfile.TemporaryDirectory(prefix="framebench-")
        self.scratch = Path(self.folder.name)
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the temporary folder."""
        self.folder.cleanup()

    @property
    def without_times(self) -> bool:
        """Return whether only results and memory are measured; they are the same under any load."""
        return not self.options.rounds

    @property
    def compiles_alone(self) -> bool:
        """Return whether nothing may be built while another process compiles.

        A compilation runs alone where the time of the first step is recorded.
        """
        return self.options.first_alone and not self.without_times

    def find_file(self, variant: Variant) -> Path:
        """Return the file with the variant's records."""
        machine = provenance.read_machine_name()
        return store.find_file(self.results, machine, variant.environment.name)

    def get_records(self, variant: Variant) -> list[Record]:
        """Return the records that this session has of a variant, oldest first."""
        return list(store.read_session(self.find_file(variant), self.id, variant.case.id))

    def write(self, record: Record, variant: Variant) -> None:
        """Write a record and report that it is done. Raises OSError."""
        store.append(record, self.find_file(variant))
        self.listener.on_done(record)

    def get_scratch(self, variant: Variant) -> Path:
        """Return the folder in which the variant's programs lie once they are compiled.

        Each of the first `cold_blocks` blocks has a folder of its own, so that it compiles again.
        """
        last_cold_block = self.options.cold_blocks - 1
        block_number = 0
        if last_cold_block:  # otherwise no records need to be read
            block_number = min(len(self.get_records(variant)), last_cold_block)
        name = f"{variant.case.id.replace('/', '.')}.{block_number}"
        return self.scratch / variant.environment.name / name

    def make_context(self, variant: Variant, load: float | None) -> Context:
        """Return the circumstances of a measurement, for the provenance of its record.

        `load` is the one-minute load average before the measurement.
        """
        return Context(
            case=variant.case,
            environment=variant.environment,
            options=self.options,
            session=self.id,
            results=self.results,
            load_before=load,
        )


def measure(groups: list[Group], run: Run, blocks: int = 1) -> None:
    """Measure so many blocks of each group: the first of every group, then the second, and so on.

    Blocks that the session already has are not repeated. Raises OSError if a record cannot be
    written.
    """
    if run.without_times:
        groups = [join_groups(groups)]
    for block_number in range(blocks):
        for group in groups:
            measure_group(group, run, block_number)


def join_groups(groups: list[Group]) -> Group:
    """Join groups whose times are not compared, so that none waits for another.

    The variants that others are verified against come first.
    """
    always: list[Variant] = []
    others: list[Variant] = []
    for group in groups:
        always += group.always
        others += group.others
    # a baseline may be in several groups: a dict keeps the order and drops duplicates
    variants = tuple(dict.fromkeys(always + others))
    return Group("without-times", always=(), others=variants)


def measure_group(group: Group, run: Run, block_number: int = 0) -> None:
    """Measure the group's block of this number, in several parts if memory is too small for one.

    Variants that an interrupted session has measured in this block are not measured again.
    """
    name = f"{run.id}/{group.name}/{block_number}"
    finish_interrupted_block(group, name, run)
    remaining, part_number = find_remaining(group, name, run)
    remaining = drop_wrong_mathematics(remaining, run)
    while remaining:
        chosen, waiting = choose_variants(group, remaining, run)
        outcome = run_block(f"{name}.{part_number}", chosen, len(group.always), run)
        timed = outcome.timed
        # memory ran out next to others: each of these variants is tried again alone
        for variant in outcome.out_of_memory:
            part_number += 1
            timed += run_block(f"{name}.{part_number}", [variant], n_always=1, run=run).timed
        part_number += 1
        # if the session is interrupted in `finish_block`, the next one finishes these records
        unfinished_file = unfinished.find_file(run.results, name)
        unfinished_records = []
        for each in timed:
            environment = each.variant.environment.name
            unfinished_records.append(UnfinishedRecord(environment=environment, record=each.record))
        unfinished.write(unfinished_records, unfinished_file)
        finish_block(timed, run)
        unfinished.remove(unfinished_file)
        remaining = outcome.not_started + waiting


def finish_interrupted_block(group: Group, name: str, run: Run) -> None:
    """Write the records of a block whose rounds were over when its session was interrupted."""
    file = unfinished.find_file(run.results, name)
    timed = []
    for saved in unfinished.read(file):
        for variant in dict.fromkeys([*group.always, *group.others]):
            if is_unfinished(saved, variant, run):
                timed.append(TimedVariant(variant, saved.record))
    finish_block(timed, run)
    unfinished.remove(file)


def is_unfinished(saved: UnfinishedRecord, variant: Variant, run: Run) -> bool:
    """Return whether a record is of this variant, and was not written before the interruption."""
    record = saved.record
    if (record.case, saved.environment) != (variant.case.id, variant.environment.name):
        return False
    turns = record.turns_taken
    for earlier in run.get_records(variant):
        if earlier.turns and (earlier.turns.block, earlier.turns.arm) == (turns.block, turns.arm):
            return False
    return True


def find_remaining(group: Group, name: str, run: Run) -> tuple[list[Variant], int]:
    """Return the variants that a block still lacks, and the number of the block's next part.

    `name` is `SESSION/GROUP/NUMBER`; records have `.PART` behind it.
    """
    remaining = []
    last_part_number = -1
    block_number = name.rpartition("/")[2]
    # two variants of a group may be equal: both must have a record in the same part
    for variant, needed in Counter([*group.always, *group.others]).items():
        records_by_part: Counter[str] = Counter()
        for record in run.get_records(variant):
            if record.turns is None:
                continue
            block, _, part = record.turns.block.rpartition(".")
            if block == name:
                last_part_number = max(last_part_number, int(part))
            # without times any group's block of this number counts, since nothing is compared
            if block == name or (run.without_times and block.rpartition("/")[2] == block_number):
                records_by_part[record.turns.block] += 1
        if max(records_by_part.values(), default=0) < needed:
            remaining.append(variant)
    return remaining, last_part_number + 1


def check_mathematics(variants: list[Variant], run: Run) -> None:
    """Check the mathematics of these variants in float64, unless the run has done so."""
    unchecked = [variant for variant in variants if variant not in run.mathematics_by_variant]
    if unchecked:
        outcomes = run.check_mathematics(unchecked, run.options, run.listener.on_phase)
        run.mathematics_by_variant.update(outcomes)


def drop_wrong_mathematics(variants: list[Variant], run: Run) -> list[Variant]:
    """Check the mathematics of these variants in float64, and return those that may be measured.

    A variant whose mathematics is wrong gets its record at once, without measuring.
    """
    check_mathematics(variants, run)
    measurable = []
    for variant in variants:
        outcome = run.mathematics_by_variant.get(variant)
        if outcome is None or outcome.passed:
            measurable.append(variant)
        elif not run.get_records(variant):
            record = recording.make_wrong_record(run.make_context(variant, None), outcome)
            run.write(record, variant)
    return measurable


def choose_variants(
    group: Group, remaining: list[Variant], run: Run
) -> tuple[list[Variant], list[Variant]]:
    """Return the variants of the next block, and those that wait for a later one."""
    if run.without_times:
        # nothing is compared, so a block is small: an interruption then loses little
        at_once = len(run.options.list_cores())
        return remaining[:at_once], remaining[at_once:]
    others = [variant for variant in group.others if variant in remaining]
    return [*group.always, *others], []


@dataclass
class TimedVariant:
    """A variant whose timed process has ended, with its record, which still lacks the memory."""

    variant: Variant
    record: Record
    # the peak of the process; None in a block that was interrupted
    resident_bytes: int | None = None


@dataclass
class BlockOutcome:
    """The variants of a block by their outcome."""

    timed: list[TimedVariant]
    not_started: list[Variant]  # since memory did not suffice for them
    out_of_memory: list[Variant]  # memory ran out next to others; alone they may fit


def run_block(name: str, variants: list[Variant], n_always: int, run: Run) -> BlockOutcome:
    """Start processes for as many variants as fit, time them in turns, and return the outcome.

    The first `n_always` variants, with which others are compared, and one more are always started.
    """
    load = runner.read_load_average()
    processes: list[TimedProcess] = []
    files: set[Path] = set()
    try:
        start_processes(variants, n_always, processes, run)
        for process in processes:
            files |= process.list_mapped_files()
        seed = secrets.randbelow(2**31)
        matmul = take_turns(processes, seed, run)
        verify_timed_steps(processes, run)
    finally:
        for process in processes:
            process.kill()
    # kernels on a GPU do not lie in the host's pages
    if not run.without_times and not nvml.list_gpus():
        pages.renew(files)
    outcomes = [process.complete_outcome() for process in processes]
    fail_verifications_against_wrong(processes, outcomes)
    case_ids = [process.variant.case.id for process in processes]
    has_others = len(processes) > 1
    timed = []
    out_of_memory = []
    for place, (process, outcome) in enumerate(zip(processes, outcomes)):
        if outcome.status == "oom" and has_others and run.options.memory_limit is None:
            out_of_memory.append(process.variant)
            continue
        turns = describe_turns(process, place, case_ids, name, seed, matmul)
        record = make_time_record(process, outcome, turns, load, run)
        timed.append(TimedVariant(process.variant, record, outcome.resident_bytes))
    return BlockOutcome(timed, variants[len(processes) :], out_of_memory)


def make_time_record(
    process: TimedProcess, outcome: CaseOutcome, turns: Turns, load: float, run: Run
) -> Record:
    """Return the record of a timed process, which still lacks the memory.

    `load` is the load average before the block.
    """
    # the time of its first step counts if the step compiled its programs, and nothing disturbed it
    is_undisturbed = run.compiles_alone or not nvml.list_gpus()
    has_first_step = process.is_cold and is_undisturbed and not run.without_times
    return recording.make_record(
        run.make_context(process.variant, load),
        outcome,
        mathematics=run.mathematics_by_variant.get(process.variant),
        turns=turns,
        has_first_step=has_first_step,
    )


def start_processes(
    variants: list[Variant], n_always: int, processes: list[TimedProcess], run: Run
) -> None:
    """Start the variants' processes in batches, and add them to `processes`.

    It ends when all are started, or when they take the share of the free memory that `Capacity`
    allows. The first `n_always` variants, with which others are compared, are always started, and
    so is one more to compare with them. A process that compiles is built alone, since its first
    step is timed; one whose programs are already compiled is built next to others, each on a core
    of its own.
    """
    capacity = Capacity()
    while len(processes) < len(variants):
        alive = [process for process in processes if process.is_alive]
        batch: list[TimedProcess] = []
        for variant, core in zip(variants[len(processes) :], run.options.list_cores()):
            is_always_started = len(processes) <= n_always
            if not is_always_started and not capacity.fits_more(alive, 1 + len(batch)):
                break
            if batch and must_wait(variant, batch, processes, run):
                break
            on_phase = partial(run.listener.on_phase, variant.case)
            process = TimedProcess(variant, run.options, run.get_scratch(variant), on_phase)
            processes.append(process)
            batch.append(process)
            reference = find_substitute_reference(variant.case, run, processes)
            process.start(reference, find_verified_block(variant, run), core)
        if not batch:
            return
        for process in batch:
            process.wait_until_ready()
            capacity.count_process(process.worker.process.pid if process.worker else None)


def must_wait(
    variant: Variant, batch: list[TimedProcess], processes: list[TimedProcess], run: Run
) -> bool:
    """Return whether a variant must not be built next to those of `batch`.

    The variants of `batch` are being built now.
    """
    first, *_ = batch  # if it compiles, and must be built alone, it is the only one
    compiles = first.is_cold or not run.get_scratch(variant).exists()
    if compiles and run.compiles_alone:
        return True
    return waits_for_reference(variant.case, batch, processes, run)


def waits_for_reference(
    case: Case, batch: list[TimedProcess], processes: list[TimedProcess], run: Run
) -> bool:
    """Return whether a case is to be verified against one in `batch`, which is being built."""
    is_built_now = any(process.variant.case.golden_key == case.golden_key for process in batch)
    return (
        is_built_now
        and references.needs_reference(case)
        and find_substitute_reference(case, run, processes) is None
    )


def find_substitute_reference(
    case: Case, run: Run, processes: list[TimedProcess]
) -> Reference | None:
    """Return the reference of a case without float64 values, or None if there is none.

    It is a variant of this block, or else an earlier record.
    """
    verified = []
    for process in processes:
        if process.verification:
            verified.append((process.variant.case, process.verification))
    machine = provenance.read_machine_name()
    return references.find_reference(case, verified, run.id, run.results, machine)


def find_verified_block(variant: Variant, run: Run) -> VerifiedBlock | None:
    """Return the session's block that has verified a variant tensor by tensor, or None.

    A case with which others are compared, for want of float64 values, is verified in each block.
    """
    if references.needs_reference(variant.case):
        return None
    for record in run.get_records(variant):
        verification = record.verification
        is_whole = verification is not None and verification.verified_in is None
        if verification and is_whole and record.status == "ok" and record.turns:
            return VerifiedBlock(record.turns.block, verification.tolerance)
    return None


def take_turns(processes: list[TimedProcess], seed: int, run: Run) -> ReferenceMatmul | None:
    """Go through the rounds: in each the reference matmul, then live variants in random order.

    Before each round free memory is written to, so that no step waits until the machine has it.

    Returns the reference matmul with its times, or None if no process is alive or no times are
    measured.
    """
    alive = [process for process in processes if process.is_alive]
    if not alive or run.without_times:
        return None
    order = random.Random(seed)
    block_began_s = time.monotonic()
    with ReferenceMatmul(run.options) as matmul:
        for round_number in range(run.options.rounds):
            phase = f"round {round_number + 1} of {run.options.rounds}, {len(alive)} in turn"
            run.listener.on_phase(alive[0].variant.case, phase)
            # one process steps at a time, and may take its memory anew in each step
            free_memory.touch(2 * max(process.read_resident_peak() for process in alive))
            matmul.turn(round_number)
            for process in order.sample(alive, len(alive)):
                if process.is_alive and round_number < process.rounds:
                    process.turn(round_number, block_began_s)
    return matmul


def verify_timed_steps(processes: list[TimedProcess], run: Run) -> None:
    """Let the live processes verify their timed steps, each on a core of its own, and wait."""
    alive = [process for process in processes if process.is_alive]
    cores = run.options.list_cores()
    for batch in cut_into_batches(alive, len(cores)):
        for process, core in zip(batch, cores):
            process.finish(core)
        for process in batch:
            process.end()


def fail_verifications_against_wrong(
    processes: list[TimedProcess], outcomes: list[CaseOutcome]
) -> None:
    """Fail the verification of each variant whose reference failed verification in the end."""
    wrong = set()
    for process, outcome in zip(processes, outcomes):
        if not outcome.is_right:
            wrong.add(process.variant.case.id)
    for process, outcome in zip(processes, outcomes):
        verification = outcome.result.verification
        if process.verification is None or verification is None:
            continue
        against = process.verification.against
        if against in wrong:
            reason = f"it was verified against {against}, which failed verification"
            failed = replace(verification, passed=False, reason=reason)
            outcome.result = replace(outcome.result, verification=failed)


def describe_turns(
    process: TimedProcess,
    place: int,
    case_ids: list[str],
    block: str,
    seed: int,
    matmul: ReferenceMatmul | None,
) -> Turns:
    """Return the turns that a variant made in its block, without rounds where it has no times.

    `place` is its place among `case_ids`, the cases of all processes of the block.
    """
    rounds: list[int] = []
    began_s: list[float] = []
    reference_s: list[float] = []
    if process.outcome and process.outcome.is_right and matmul:
        rounds = process.turn_rounds
        began_s = process.turn_began_s
        # a reference process that died has no seconds of later rounds
        reference_s = [matmul.seconds[round] for round in rounds if round in matmul.seconds]
    return Turns(
        block=block,
        arm=place,
        arms=case_ids,
        seed=seed,
        steps=process.steps,
        round=rounds,
        at_s=began_s,
        reference_s=reference_s,
        reference_flop=matmul.flop if matmul else 0.0,
    )


def finish_block(timed: list[TimedVariant], run: Run) -> None:
    """Measure the memory that is still missing, and write one record per variant.

    Each record is written as soon as its variant is complete, so an interrupted session resumes at
    the first variant without one.
    """
    for batch in cut_into_batches(timed, count_memory_processes(timed, run)):
        with ExitStack() as stack:
            processes: list[MemoryProcess | None] = []
            for each in batch:
                process = None
                if needs_memory(each, run):
                    scratch = run.get_scratch(each.variant)
                    process = MemoryProcess(each.variant, run.options, scratch)
                    stack.callback(process.kill)
                processes.append(process)
            for each, process in zip(batch, processes):
                record = each.record
                if process:
                    on_phase = partial(run.listener.on_phase, each.variant.case)
                    record = recording.add_memory(record, process.end(on_phase))
                run.write(record, each.variant)


def needs_memory(timed: TimedVariant, run: Run) -> bool:
    """Return whether the variant passed verification, and the session has no peaks of it yet."""
    if timed.record.status != "ok" or not run.options.memory:
        return False
    if run.options.peaks_each_block:
        return True
    block = timed.record.turns_taken.block
    for earlier in run.get_records(timed.variant):
        if earlier.peaks and not (earlier.turns and earlier.turns.block == block):
            return False
    return True


def count_memory_processes(timed: list[TimedVariant], run: Run) -> int:
    """Return how many processes for the memory may be alive at once.

    The number is one for each core, or one if memory is scarce.
    """
    sizes = [each.resident_bytes for each in timed if each.resident_bytes is not None]
    if len(sizes) < len(timed):
        return 1
    at_once = len(run.options.list_cores())
    can_run_together = fits([max(sizes, default=0)], free=read_free_memory(), more=at_once)
    return at_once if can_run_together else 1


def record_unsupported(case: Case, run: Run, environment: Environment) -> Record:
    """Return the record that says why this machine cannot measure a case.

    The record is written once in a session.
    """
    variant = Variant(case, environment)
    earlier = run.get_records(variant)
    if earlier:
        return earlier[-1]
    context = run.make_context(variant, runner.read_load_average())
    record = recording.make_unsupported_record(context, runner.explain_unsupported(case))
    run.write(record, variant)
    return record
