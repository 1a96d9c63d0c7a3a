"""Records made by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, product
from typing import Any

import pandas as pd

from framebench.analysis import frames
from framebench.records.record import ROUNDS, Provenance, Record, Turns
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION
from framebench.suite.result import StrategyEffect, Verification

CASE = Case("transformer", "torch", "train", "fp32", 4, "tiny")
RIGHT = {
    "verification": Verification(passed=True, relative_error={"loss": 1e-8}),
    "effect": StrategyEffect(proven=True, evidence={}),
}


def provenance(**changes: Any) -> Provenance:
    fields = {
        "session": "s",
        "measured_at": datetime(2026, 1, 2, tzinfo=UTC),
        "command": "framebench run",
        "commit": "c" * 40,
        "dirty": False,
        "machine": "m",
        "hardware": {"cpu": "x", "device": "cpu"},
        "versions": {"torch": "2.13.0"},
        "protocol": VERSION,
    }
    return Provenance(**{**fields, **changes})


NUMBER = count()


def record(case: Case = CASE, **changes: Any) -> Record:
    """With times it is the only variant of a block; of fewer rounds than a block's times take each
    is there as often.
    """
    if (step_s := changes.get("step_s")) and "turns" not in changes:
        changes["step_s"] = step_s if len(step_s) >= ROUNDS else [*step_s] * ROUNDS
        changes["turns"] = turns(f"alone {next(NUMBER)}", case, len(changes["step_s"]))
    return Record(**{"case": case.id, "status": "ok", "provenance": provenance(), **changes})


def turns(block: str, case: Case, rounds: int, variant: int = 0) -> Turns:
    return Turns(
        block=block,
        arm=variant,
        arms=[case.id],
        seed=0,
        steps=1,
        round=list(range(rounds)),
        at_s=[0.0] * rounds,
        reference_s=[0.05] * rounds,
        reference_flop=1e9,
    )


def made(
    strategy: str,
    peak: int,
    step: float,
    framework: str = "torch",
    instrument: str = "host.rss",
    batch: int = 4,
) -> Record:
    case = Case("transformer", framework, "train", strategy, batch, "tiny")
    origin = provenance(versions={framework: "1"})
    return record(
        case, peaks={instrument: peak}, step_s=[step], first_step_s=1.0, provenance=origin, **RIGHT
    )


def frame(*found: Record) -> pd.DataFrame:
    return frames.make_frame(found)


def died(strategy: str = "checkpoint", when: str = "2027-01-01T00:00:00Z") -> Record:
    """A worker that ended before it could name its framework's version."""
    case = Case("transformer", "torch", "train", strategy, 4, "tiny")
    return record(
        case,
        status="crashed",
        reason="SIGKILL",
        provenance=provenance(versions={}, measured_at=when),
    )


def blocks(
    variants: Sequence[tuple[Case, Sequence[Sequence[float]]]],
    *,
    instructions: int | None = None,
    reference: tuple[float, float] = (0.05, 1e9),
    peaks: Sequence[int] = (),
    **origin: Any,
) -> list[Record]:
    """Records of live blocks.

    Of each variant the seconds of a step by block and round; NaN is a round that it missed. Of
    fewer rounds than a block's times take each is there as often.

    Peaks (one per variant) stand in the first block's records alone. `reference`: seconds and
    operations of the reference product.
    """
    found = []
    for number, variant in product(range(len(variants[0][1])), range(len(variants))):
        case, times = variants[variant]
        seconds = times[number] if len(times[number]) >= ROUNDS else [*times[number]] * ROUNDS
        kept = {i: s for i, s in enumerate(seconds) if not math.isnan(s)}
        taken = Turns(
            block=f"block {number}",
            arm=variant,
            arms=[c.id for c, _ in variants],
            seed=number,
            steps=1,
            round=list(kept),
            at_s=[float(i) for i in kept],
            reference_s=[reference[0]] * len(kept),
            reference_flop=reference[1],
        )
        when = datetime(2026, 1, 2, tzinfo=UTC) + timedelta(minutes=number)
        proof = {
            "measured_at": when,
            "versions": {case.framework: "1"},
            "protocol": VERSION,
            "core": 1,
            **origin,
        }
        read: dict[str, Any] = {}
        if peaks and number == 0:
            read = {
                "peaks": {"host.rss": peaks[variant]},
                "cold_peaks": {"host.rss": 2 * peaks[variant]},
            }
        counted = [] if instructions is None else [instructions] * len(kept)
        steps = {"step_s": list(kept.values()), "instructions": counted, "turns": taken}
        found.append(record(case, provenance=provenance(**proof), **steps, **read, **RIGHT))
    return found


def in_blocks(found: Iterable[Record], several: int = 3) -> Iterator[Record]:
    """The same records, as if those with times had been timed in several blocks: all of one batch
    in the same ones, always alike.
    """
    for variant, r in enumerate(found):
        case = r.parsed
        if not r.step_s:
            yield r
            continue
        for number in range(several):
            question = f"{case.workload}/{case.scenario}/b{case.batch}/{case.size}"
            block = f"{r.provenance.machine}/{question}/{number}"
            yield r.model_copy(update={"turns": turns(block, case, len(r.step_s), variant)})


def select_sides(
    found: Iterable[Record], base: str, change: str
) -> tuple[list[Record], list[Record]]:
    """The two sides of a comparison; of a case against itself the first process of each block, and
    the others.
    """
    every = list(found)
    if base != change:
        return [r for r in every if r.case == base], [r for r in every if r.case == change]
    first = [r for r in every if not r.turns or r.turns.arm == 0]
    return first, [r for r in every if r.turns and r.turns.arm]
