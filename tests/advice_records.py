"""Records by hand that advice is asked of, and what it says of all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from framebench.analysis import frames
from framebench.analysis.frames import Row
from framebench.analysis.selection import select_records
from framebench.budget.advise.advice import BudgetAdvice, Question, advise
from framebench.records.record import Calibration, Record
from framebench.strategies.strategy import FRAMEWORKS
from tests.fake_records import make_measured

MIB = 2**20
STRATEGIES = (
    "fp32",
    "amp_bf16",
    "checkpoint",
    "accumulate",
    "keep_grads",
    "width_half",
    "student",
    "amp_bf16+checkpoint",
)
INSTRUMENT = {"torch": "host.rss", "jax": "compiler.plan", "jittor": "allocator.in_use"}
PASSED = Calibration(measured_at=datetime(2026, 1, 1, tzinfo=UTC), passed=True)


def make_record(
    framework: str,
    strategy: str,
    batch: int = 4,
    peak: int = 100,
    step: float = 1.0,
    machine: str = "m",
    **changes: Any,
) -> Record:
    """Return a right and proven record of the tiny Transformer."""
    peaks = {"host.rss": peak + 1000, INSTRUMENT[framework]: peak}
    origin = {"machine": machine, "calibration": PASSED} | changes.pop("origin", {})
    made = {"peaks": peaks, "origin": origin} | changes
    return make_measured(strategy, peak, step, framework, batch=batch, **made)


def has_advice(records: list[Record]) -> bool:
    """Return whether a strategy is there that is not only for claims."""
    return any(not record.parsed.strategy_spec.only_for_claims for record in records)


one = st.builds(
    make_record,
    st.sampled_from(FRAMEWORKS),
    st.sampled_from(STRATEGIES),
    st.sampled_from([4, 8]),
    st.integers(100 * 1024, 10 * MIB),
    st.floats(0.001, 10),
)
several = st.lists(one, min_size=1, max_size=12).filter(has_advice)
ALMOST = 9 * MIB // 10
QUESTION = Question("transformer", "train", MIB, batch=4, size="tiny")


def ask_advice(found: list[Record], **changes: object) -> BudgetAdvice:
    """Return what is advised on a budget of 1 MiB at batch 4, or on a changed question."""
    return advise([make_rows(found)], replace(QUESTION, **changes))


def measure_batches(*batches: int, strategy: str = "fp32") -> list[Record]:
    """Return records of a strategy that has a MiB, and one more for each sample."""
    return [
        make_record("torch", strategy, batch=batch, peak=(1 + batch) * MIB) for batch in batches
    ]


def make_rows(found: list[Record]) -> list[Row]:
    return frames.make_rows(select_records(found))
