"""Measure a case over several ranks, in two processes one after the other.

Each of them launches the ranks. The record has one entry for each rank. Ranks that share cores have
no step times, and such a case is in no block.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from framebench.engine import recording, runner
from framebench.engine.blocks import Run
from framebench.engine.environments import Environment
from framebench.engine.runner import CaseOutcome, read_case_outcome
from framebench.engine.supervisor import Worker
from framebench.engine.timed_process import Variant
from framebench.ranks import predicted
from framebench.records.record import Record
from framebench.records.record_base import INSTRUMENTS
from framebench.records.record_parts import Rank
from framebench.suite.case import Case
from framebench.suite.protocol import Part
from framebench.suite.result import MemoryResult, RankMemory


def measure(case: Case, environment: Environment, run: Run) -> Record:
    """Return the record of the case, measured unless the session has it.

    Raises OSError if it cannot be written.
    """
    variant = Variant(case, environment)
    earlier = run.get_records(variant)
    if earlier:
        return earlier[-1]
    load = runner.read_load_average()
    with tempfile.TemporaryDirectory(prefix="framebench-") as scratch:
        outcome = run_part("time", variant, run, Path(scratch))
        record = recording.make_record(run.make_context(variant, load), outcome)
        if outcome.is_right:
            memory = run_part("memory", variant, run, Path(scratch))
            record = recording.add_memory(record, memory)
            if record.status == "ok":
                record = recording.replace_fields(record, **describe_ranks(variant, memory))
    run.write(record, variant)
    return record


def describe_ranks(variant: Variant, memory: CaseOutcome) -> dict[str, object]:
    """Return the fields `ranks` and `predicted_bytes` of a record.

    The prediction is of the fullest rank's peak, or None if there is none.
    """
    ranks = []
    for number, rank_memory in enumerate(memory.result.ranks):
        result = rank_memory.memory
        rank = Rank(
            rank=number,
            peaks=result.peaks,
            peak_samples=result.peak_samples,
            cold_peaks=result.cold_peaks,
            live_bytes=result.live_bytes,
            held=rank_memory.held,
        )
        ranks.append(rank)
    predicted_bytes = None
    with suppress(predicted.Unpredicted):
        prediction = predicted.predict_rank_peak(variant.case, variant.environment)
        predicted_bytes = prediction.peak_bytes
    return {"ranks": ranks, "predicted_bytes": predicted_bytes}


def run_part(part: Part, variant: Variant, run: Run, scratch: Path) -> CaseOutcome:
    """Measure one part of the case: its time or its memory. No rank is pinned to a core.

    A fault of the worker is in the outcome, and not raised.
    """
    started = time.monotonic()
    env_vars = {
        **runner.make_worker_variables(variant.environment, variant.case, part, run.options),
        **variant.environment.list_scratch_variables(scratch),
        "TMPDIR": str(scratch),  # PyTorch's launcher leaves a folder there
    }
    task = replace(run.options.make_task(variant.case, part), core=None)
    worker = Worker(variant.environment, "framebench.ranks.worker", task.as_dict(), env_vars)
    end = worker.end(partial(run.listener.on_phase, variant.case), run.options.time_limit_s)
    outcome = read_case_outcome(worker, end)
    outcome.seconds = time.monotonic() - started
    if outcome.result.ranks:
        outcome.result = replace(outcome.result, memory=find_fullest(outcome.result.ranks))
    return outcome


def find_fullest(ranks: list[RankMemory]) -> MemoryResult | None:
    """Return the memory of the fullest rank, by the first instrument that all have.

    Returns None if the ranks have no instrument in common.
    """
    memories = [rank.memory for rank in ranks]
    for instrument in INSTRUMENTS:
        if all(instrument in memory.peaks for memory in memories):
            return max(memories, key=lambda memory: memory.peaks[instrument])
    return None
