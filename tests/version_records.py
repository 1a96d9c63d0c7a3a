"""Blocks of real records in two versions of JAX, which differ by noise between processes and by
what is planted.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from framebench.records import store
from framebench.records.record import Record, Turns
from tests.sample_records import records

OLD, NEW = "jax==0.9.2", "jax==0.10.2"
BLOCKS = 5
Change = Callable[[Record, int], Record]  # of one record, in the round of this number


def originals(count: int = 6) -> list[Record]:
    """Real records of as many cases."""
    jax = [r for r in records() if r.parsed.framework == "jax" and r.status == "ok"]
    found = {r.case: r for r in jax if r.peaks and len(r.step_s) > 2 and r.cpu_s_per_step}
    return [found[case] for case in sorted(found)][:count]


def at(found: Record, version: str, when: datetime, session: str = "s") -> Record:
    return changed(
        found,
        versions={**found.provenance.versions, "jax": version.removeprefix("jax==")},
        measured_at=when,
        session=session,
    )


def changed(found: Record, **origin: Any) -> Record:
    """The record with another provenance."""
    return found.model_copy(update={"provenance": found.provenance.model_copy(update=origin)})


def times(record: Record, factor: float) -> Record:
    """A record whose steps took so many times as long."""
    return record.model_copy(update={"step_s": [s * factor for s in record.step_s]})


def larger(record: Record, factor: float) -> Record:
    return record.model_copy(
        update={"peaks": {name: round(size * factor) for name, size in record.peaks.items()}}
    )


def unchanged(record: Record, number: int) -> Record:
    return record


PROCESS = 0.02  # standard deviation of log step times between processes of one block, as measured


def rounds(
    record: Record,
    count: int = BLOCKS,
    change: Change = unchanged,
    session: str = "s",
    seed: int = 0,
) -> list[Record]:
    """Blocks of one real record in two versions that differ by noise between processes, and by a
    change of the newer one.
    """
    drawn = np.random.default_rng(seed).normal(0, PROCESS, (count, 2))
    start, found = datetime(2026, 1, 1, tzinfo=UTC), []
    for number, logs in enumerate(drawn):
        when = start + timedelta(minutes=number)
        variants = [
            in_block(
                at(times(record, float(np.exp(log))), version, when, session),
                variant,
                f"{session}/{record.case}/{number}",
            )
            for variant, (log, version) in enumerate(zip(logs, (OLD, NEW)))
        ]
        found += [variants[0], change(variants[1], number)]
    return found


def in_block(r: Record, variant: int, block: str) -> Record:
    count = len(r.step_s)
    turns = Turns(
        block=block,
        arm=variant,
        arms=[r.case] * 2,
        seed=0,
        steps=1,
        round=list(range(count)),
        at_s=[0.0] * count,
        reference_s=[0.05] * count,
        reference_flop=1e9,
    )
    return r.model_copy(update={"turns": turns})


def write(found: list[Record], results: Path) -> Path:
    for r in found:
        store.append(
            r,
            store.find_file(results, r.provenance.machine, f"jax-{r.framework_version}"),
        )
    return results


@cache
def equal_rounds() -> list[Record]:
    """Of several cases, without a change."""
    return [r for seed, original in enumerate(originals()) for r in rounds(original, seed=seed)]


def plant(found: list[Record], slow: str, large: str) -> list[Record]:
    """A copy in which the newer version takes 20 % longer for one case, and 5 % more memory for
    another.
    """

    def planted(r: Record) -> Record:
        if r.framework_version != "0.10.2":
            return r
        return times(r, 1.2) if r.case == slow else larger(r, 1.05) if r.case == large else r

    return [planted(r) for r in found]


def broken(r: Record, number: int) -> Record:
    return r.model_copy(
        update={"status": "oom", "reason": "memory ran out", "peaks": {}, "step_s": []}
    )
