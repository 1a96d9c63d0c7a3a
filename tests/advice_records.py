"""Records made by hand, and the advice on them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from framebench.analysis import frames
from framebench.analysis.frames import Row
from framebench.analysis.selection import select_records
from framebench.budget.advise.advice import BudgetAdvice, Question, advise
from framebench.records.calibration import Calibration
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS
from tests.fake_records import make_measured

MIB = 2**20
FITS_A_MIB = 9 * MIB // 10  # bytes of a peak that fits 1 MiB with the margin of 5 %
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
    """Return a right and proven record of the tiny Transformer, by its bytes and seconds.

    The peak is that by the framework's usual instrument; `origin` has changes of the provenance.
    """
    peaks = {"host.rss": peak + 1000, INSTRUMENT[framework]: peak}
    origin = {"machine": machine, "calibration": PASSED} | changes.pop("origin", {})
    made = {"peaks": peaks, "origin": origin} | changes
    return make_measured(strategy, peak, step, framework, batch=batch, **made)


def has_advice(records: list[Record]) -> bool:
    """Return whether a strategy is there that is not only for claims."""
    return any(not record.parsed.strategy_spec.only_for_claims for record in records)


any_record = st.builds(
    make_record,
    framework=st.sampled_from(FRAMEWORKS),
    strategy=st.sampled_from(STRATEGIES),
    batch=st.sampled_from([4, 8]),
    peak=st.integers(100 * 1024, 10 * MIB),
    step=st.floats(0.001, 10),
)
any_records = st.lists(any_record, min_size=1, max_size=12).filter(has_advice)
QUESTION = Question("transformer", "train", MIB, batch=4, size="tiny")


def ask_advice(records: list[Record], **changes: object) -> BudgetAdvice:
    """Return what is advised on a budget of 1 MiB at batch 4, or on a changed question."""
    return advise([make_rows(records)], replace(QUESTION, **changes))


def measure_batches(*batches: int, strategy: str = "fp32") -> list[Record]:
    """Return a record for each batch, whose peak is 1 MiB and 1 MiB more for each sample."""
    return [
        make_record("torch", strategy, batch=batch, peak=(1 + batch) * MIB) for batch in batches
    ]


def make_rows(records: list[Record]) -> list[Row]:
    """Return the rows of the records that count."""
    return frames.make_rows(select_records(records))
