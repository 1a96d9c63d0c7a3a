"""Records made by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pandas as pd

from framebench.analysis import frames
from framebench.records.record import Record
from framebench.records.record_base import ROUNDS
from framebench.records.record_parts import Provenance, Turns
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION
from framebench.suite.result import StrategyEffect, Verification

CASE = Case.from_id("transformer/torch/train/fp32/b4/tiny")
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
    """Return a record; with times it is the only variant of a block, which has enough rounds."""
    step_s = changes.get("step_s")
    if step_s and "turns" not in changes:
        changes["step_s"] = fill_rounds(step_s)
        changes["turns"] = make_turns(f"alone {next(NUMBER)}", case, len(changes["step_s"]))
    fields = {"case": case.id, "status": "ok", "provenance": provenance()}
    return Record(**(fields | changes))


def fill_rounds(seconds: Sequence[float]) -> list[float]:
    """Return times of at least as many rounds as times need, each repeated if there are fewer."""
    repeats = 1 if len(seconds) >= ROUNDS else ROUNDS
    return [*seconds] * repeats


def make_turns(block: str, case: Case, rounds: int, variant: int = 0, **changes: Any) -> Turns:
    fields = {
        "block": block,
        "arm": variant,
        "arms": [case.id],
        "seed": 0,
        "steps": 1,
        "round": list(range(rounds)),
        "at_s": [0.0] * rounds,
        "reference_s": [0.05] * rounds,
        "reference_flop": 1e9,
    }
    return Turns(**(fields | changes))


def make_measured(
    strategy: str,
    peak: int,
    step: float = 1.0,
    framework: str = "torch",
    instrument: str = "host.rss",
    batch: int = 4,
    size: str = "tiny",
    scenario: str = "train",
    **changes: Any,
) -> Record:
    """Return a right and proven record of the Transformer, by its peak in bytes and its step in
    seconds; `origin` has changes of the provenance.
    """
    case = Case("transformer", framework, scenario, strategy, batch, size)
    origin = {"versions": {framework: "1"}} | changes.pop("origin", {})
    fields = {
        "peaks": {instrument: peak},
        "step_s": [step],
        "first_step_s": 1.0,
        "provenance": provenance(**origin),
    }
    return record(case, **(fields | RIGHT | changes))


def change_provenance(original: Record, **changes: Any) -> Record:
    """Return the record with these changes of its provenance."""
    parsed = provenance(**changes)
    fields = {name: getattr(parsed, name) for name in changes}
    origin = original.provenance.model_copy(update=fields)
    return original.model_copy(update={"provenance": origin})


def make_frame(*found: Record) -> pd.DataFrame:
    return frames.make_frame(found)


def make_crash_without_version(strategy: str, when: str = "2027-01-01T00:00:00Z") -> Record:
    """Return the record of a worker that ended before it could name its framework's version."""
    case = Case("transformer", "torch", "train", strategy, 4, "tiny")
    origin = provenance(versions={}, measured_at=when)
    return record(case, status="crashed", reason="SIGKILL", provenance=origin)


def make_blocks(
    variants: Sequence[tuple[Case, Sequence[Sequence[float]]]],
    *,
    instructions: int | None = None,
    reference: tuple[float, float] = (0.05, 1e9),
    peaks: Sequence[int] = (),
    name: str = "block",
    **origin: Any,
) -> list[Record]:
    """Return the records of live blocks, which are numbered behind this name.

    A variant is a case and its seconds of a step by block and round; NaN is a round that it missed.
    Times of few rounds are repeated. Peaks, one per variant, stand in the first block's records
    alone. `reference`: seconds and operations of the reference matmul.
    """
    records = []
    arms = [case.id for case, _ in variants]
    for block in range(len(variants[0][1])):
        for variant, (case, times) in enumerate(variants):
            rounds, step_s = [], []
            for number, seconds in enumerate(fill_rounds(times[block])):
                if not math.isnan(seconds):
                    rounds.append(number)
                    step_s.append(seconds)
            taken = make_turns(
                f"{name} {block}",
                case,
                len(rounds),
                variant,
                arms=arms,
                seed=block,
                round=rounds,
                at_s=[float(number) for number in rounds],
                reference_s=[reference[0]] * len(rounds),
                reference_flop=reference[1],
            )
            proof = {
                "measured_at": datetime(2026, 1, 2, tzinfo=UTC) + timedelta(minutes=block),
                "versions": {case.framework: "1"},
                "protocol": VERSION,
                "core": 1,
            }
            fields = {"step_s": step_s, "turns": taken, **RIGHT}
            if instructions is not None:
                fields["instructions"] = [instructions] * len(rounds)
            if peaks and block == 0:
                fields["peaks"] = {"host.rss": peaks[variant]}
                fields["cold_peaks"] = {"host.rss": 2 * peaks[variant]}
            records.append(record(case, provenance=provenance(**(proof | origin)), **fields))
    return records


def repeat_in_blocks(records: Iterable[Record], several: int = 3) -> Iterator[Record]:
    """Yield the records as if those with times had been timed in several blocks, always alike.

    Those of one batch are in the same blocks.
    """
    for variant, original in enumerate(records):
        case = original.parsed
        if not original.step_s:
            yield original
            continue
        for number in range(several):
            question = f"{case.workload}/{case.scenario}/b{case.batch}/{case.size}"
            block = f"{original.provenance.machine}/{question}/{number}"
            taken = make_turns(block, case, len(original.step_s), variant)
            yield original.model_copy(update={"turns": taken})
