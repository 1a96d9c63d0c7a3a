"""Blocks of real records in two versions of JAX, which differ by noise between processes and by
what is planted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np

from framebench.records.record import Record
from tests.fake_records import change_provenance, make_turns
from tests.record_files import add_records
from tests.sample_records import read_sample

OLD, NEW = "jax==0.9.2", "jax==0.10.2"
BLOCKS = 5
PROCESS = 0.02  # standard deviation of log step times between processes of one block, as measured
Change = Callable[[Record, int], Record]  # of one record, in the round of this number


def select_originals(count: int = 6) -> list[Record]:
    """Return real records of as many cases."""
    by_case = {}
    for record in read_sample():
        is_timed = record.peaks and len(record.step_s) > 2 and record.cpu_s_per_step
        if record.parsed.framework == "jax" and record.status == "ok" and is_timed:
            by_case[record.case] = record
    return [by_case[case] for case in sorted(by_case)][:count]


def set_version(record: Record, version: str, when: datetime, session: str = "s") -> Record:
    versions = {**record.provenance.versions, "jax": version.removeprefix("jax==")}
    return change_provenance(record, versions=versions, measured_at=when, session=session)


def scale_times(record: Record, factor: float) -> Record:
    """Return a record whose steps took so many times as long."""
    return record.model_copy(update={"step_s": [seconds * factor for seconds in record.step_s]})


def scale_peaks(record: Record, factor: float) -> Record:
    """Return a record whose peaks are so many times as large."""
    peaks = {name: round(size * factor) for name, size in record.peaks.items()}
    return record.model_copy(update={"peaks": peaks})


def keep_record(record: Record, number: int) -> Record:
    return record


def break_record(record: Record, number: int = 0) -> Record:
    oom = {"status": "oom", "reason": "memory ran out", "peaks": {}, "step_s": []}
    return record.model_copy(update=oom)


def make_version_blocks(
    record: Record,
    count: int = BLOCKS,
    change: Change = keep_record,
    session: str = "s",
    seed: int = 0,
) -> list[Record]:
    """Return blocks of one real record in two versions that differ by noise between processes, and
    by a change of the newer one; the older one's record comes first.
    """
    noise = np.random.default_rng(seed)
    records = []
    for number in range(count):
        block = f"{session}/{record.case}/{number}"
        when = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
        for variant, version in enumerate((OLD, NEW)):
            measured = scale_times(record, math.exp(noise.normal(0, PROCESS)))
            measured = set_version(measured, version, when, session)
            records.append(put_in_block(measured, variant, block))
        records[-1] = change(records[-1], number)
    return records


def put_in_block(record: Record, variant: int, block: str) -> Record:
    arms = [record.case] * 2
    turns = make_turns(block, record.parsed, len(record.step_s), variant, arms=arms)
    return record.model_copy(update={"turns": turns})


def write_records(found: list[Record], results: Path) -> Path:
    add_records(results, *found)
    return results


@cache
def make_equal_blocks() -> list[Record]:
    """Return blocks of several cases, without a change."""
    found = []
    for seed, original in enumerate(select_originals()):
        found += make_version_blocks(original, seed=seed)
    return found


def plant_regressions(found: list[Record], slow: str, large: str) -> list[Record]:
    """Return a copy in which the newer version takes 20 % longer for one case, and 5 % more memory
    for another.
    """
    planted = []
    for record in found:
        if record.framework_version == "0.10.2" and record.case == slow:
            record = scale_times(record, 1.2)
        elif record.framework_version == "0.10.2" and record.case == large:
            record = scale_peaks(record, 1.05)
        planted.append(record)
    return planted
