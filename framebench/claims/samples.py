"""What is taken from the records of one case: a number with its interval, from one process or several.

- Times have no interval of their own, but ratios: of processes that made their steps in turn
(`framebench/analysis/statistics.py`). - Bytes: the largest over steps and processes, as everywhere in this suite. They hardly
vary, so the interval is from the smallest to the largest value seen, widened by what equal processes differ by under the
instrument (`framebench/analysis/statistics.py`): nothing for counters and plans.
- Shares of the step time: the mean over processes with its t interval; one process has none.
- Counts from the evidence of an effect: exact, from the smallest to the largest seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from framebench.analysis.statistics import CONFIDENCE, RESOLUTION
from framebench.records.record import Record

POOL_BLOCK = 2**20  # bytes: Jittor's pool takes and gives back no less
SHARE = "share of the step time"
SAME = "counted"  # the instrument of what no instrument of memory reads

__all__ = ["CONFIDENCE", "Estimate", "Quantity"]


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval, infinite where it has none."""

    value: float
    low: float
    high: float
    instrument: str = SAME


@dataclass(frozen=True)
class Quantity:
    """A number of a case: how it is estimated from its records (all of one machine, version and protocol)."""

    name: str
    estimate: Callable[[Sequence[Record]], Estimate | None]


def bounds(values: Sequence[float], instrument: str) -> Estimate:
    share, size = RESOLUTION.get(instrument, (0.0, 0))
    low, high = min(values), max(values)
    return Estimate(high, low - share * abs(low) - size, high + share * abs(high) + size, instrument)


def mean(values: Sequence[float]) -> Estimate:
    """Over processes, with Student's interval."""
    middle = float(np.mean(values))
    if len(values) < 2:
        return Estimate(middle, -math.inf, math.inf)
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    return Estimate(middle, middle - half, middle + half)


def _bytes_by(of: Callable[[Record, dict[str, int], str], float], instrument: str = "") -> Callable[..., Estimate | None]:
    """`of` gets the record, one steady step's peaks, and the instrument: the given one, or the record's own."""

    def estimate(records: Sequence[Record]) -> Estimate | None:
        measured = [r for r in records if r.peak_samples]
        chosen = instrument or (measured[-1].peak_instrument or "" if measured else "")
        steps = [(r, step) for r in measured for step in r.peak_samples if chosen in step]
        return bounds([of(r, step, chosen) for r, step in steps], chosen) if steps else None

    return estimate


def added(record: Record, step: dict[str, int], instrument: str) -> float:
    return step[instrument] - (record.live_bytes or 0)


PEAK = Quantity("peak", _bytes_by(lambda record, step, instrument: step[instrument]))
PLAN = Quantity("peak by the compiler's plan", _bytes_by(lambda record, step, instrument: step[instrument], "compiler.plan"))
HOST = Quantity("peak by host.rss", _bytes_by(lambda record, step, instrument: step[instrument], "host.rss"))
RESERVED = Quantity("peak reserved", _bytes_by(lambda record, step, instrument: step[instrument], "allocator.reserved"))
ADDED = Quantity("peak less what is alive between steps", _bytes_by(added))
TIME = Quantity("step time", lambda records: None)


def share(purpose: str) -> Quantity:
    """A share of the step time."""

    def estimate(records: Sequence[Record]) -> Estimate | None:
        purpose_shares = [r.shares[purpose] for r in records if r.step_s and purpose in r.shares]
        return mean(purpose_shares) if purpose_shares else None

    return Quantity(f"{SHARE}: {purpose}", estimate)


def counted(record: Record, name: str) -> float | None:
    """A number of the effect's evidence; what a file has in its place that is none does not count."""
    value = record.effect.evidence.get(name) if record.effect else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _free_share(records: Sequence[Record]) -> Estimate | None:
    """Of the pool as the timed steps have left it, which nobody emptied: the part that the next step did not use at its peak.
    The pool grows by whole blocks, so a block more or less says nothing."""
    pairs = [(counted(r, "pool_bytes"), counted(r, "pool_peak_bytes")) for r in records]
    complete_pairs = [(pool, used) for pool, used in pairs if pool and used]
    if not complete_pairs:
        return None
    low = min(1 - used / max(pool - POOL_BLOCK, used) for pool, used in complete_pairs)
    return Estimate(
        max(1 - used / pool for pool, used in complete_pairs),
        low,
        max(1 - used / (pool + POOL_BLOCK) for pool, used in complete_pairs),
    )


FRAGMENTATION = Quantity("share of the kept pool that a step does not use", _free_share)


def exact(name: str, of: Callable[[Record], Any]) -> Quantity:
    """A counted number; values that are not numbers are ignored."""

    def estimate(records: Sequence[Record]) -> Estimate | None:
        seen = [float(v) for r in records if isinstance(v := of(r), int | float) and math.isfinite(v)]
        return Estimate(seen[-1], min(seen), max(seen)) if seen else None

    return Quantity(name, estimate)


def evidence(name: str) -> Quantity:
    """A count from the proof of the effect."""
    return exact(name.replace("_", " "), lambda r: counted(r, name))


KEPT = evidence("saved_bytes")  # for the backward pass
PARAMETERS = exact(
    "parameters over those of the plain model",
    lambda r: (counted(r, "parameters") or math.nan) / (counted(r, "parameters_of_the_plain_model") or math.nan),
)
FLOAT16 = exact(
    "variables in half precision",
    lambda r: (
        sum(r.effect.evidence.get("variable_dtypes", {}).get(name, 0) for name in ("float16", "bfloat16")) if r.effect else None
    ),
)
# of the process's share of the card: what is a little larger was refused, and was not without the cap
REFUSED = exact("allocations above the cap that are refused", lambda r: _refused(r.effect.evidence) if r.effect else None)
ALIVE = exact("bytes alive between two steps", lambda r: r.live_bytes)


def _refused(evidence: dict[str, Any]) -> int | None:
    """None where the record has nothing of it."""
    if "refused" not in evidence:
        return None
    return int(bool(evidence["refused"]) and not evidence.get("refused_without"))


def fullest(name: str, *parts: str) -> Quantity:
    """Bytes of these parts, or of all, that the fullest of several ranks holds between two steps."""

    def most(record: Record) -> int | None:
        return max((sum(rank.held.get(part, 0) for part in parts or rank.held) for rank in record.ranks), default=None)

    return exact(name, most)


def observed(name: str) -> Quantity:
    """A value that verification looked at, such as grad_norm."""
    return exact(name, lambda r: r.verification.observed.get(name) if r.verification else None)
