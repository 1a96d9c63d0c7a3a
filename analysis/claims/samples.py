"""What is taken from the records of one case: a number with its interval, from one process or several.

- Times: the median step of each process, and over processes the median of those. Bootstrap (percentile method, Efron 1979):
  from three processes on the processes are resampled, before that the steps within them.
- Bytes: the largest over steps and processes, as everywhere in this suite. They hardly vary, so the interval is from the
  smallest to the largest value seen, widened by the instrument's resolution (docs/peak.md): counters and plans are
  exact; `host.rss` is good to 0.1 %. One process alone cannot show how processes differ: five fresh ones stay within 1 %
  (tests/instruments/test_memory.py), so its value gets half a per cent either way.
- Counts from the evidence of an effect: exact, from the smallest to the largest seen.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from analysis.statistics import BETWEEN_PROCESSES, CONFIDENCE, RESAMPLES
from framebench.records.record import Record

RESOLUTION = {"host.rss": 0.001}  # relative; every other instrument is exact
ALONE = {"host.rss": 0.005}  # the same where there is a single process
SAME = "counted"  # the instrument of what no instrument of memory reads

__all__ = ["CONFIDENCE", "Estimate", "Quantity"]


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval; `draws` are bootstrap values of it, where there are any."""

    value: float
    low: float
    high: float
    instrument: str = SAME
    draws: np.ndarray | None = None
    taken: tuple[datetime, ...] = ()  # when, of a time on a processor: such times drift


@dataclass(frozen=True)
class Quantity:
    """A number of a case: how it is estimated from its records (all of one machine, version and commit)."""

    name: str
    estimate: Callable[[Sequence[Record]], Estimate | None]


def bounds(values: Sequence[float], instrument: str, processes: int) -> Estimate:
    wide = (RESOLUTION if processes > 1 else ALONE).get(instrument, 0.0)
    return Estimate(max(values), min(values) * (1 - wide), max(values) * (1 + wide), instrument)


def bytes_by(of: Callable[[Record, dict[str, int], str], float], instrument: str = "") -> Callable[..., Estimate | None]:
    """`of` gets the record, one steady step's peaks, and the instrument: the given one, or the record's own."""

    def estimate(found: Sequence[Record]) -> Estimate | None:
        chosen = instrument or (found[-1].peak_instrument or "")
        steps = [(r, step) for r in found for step in r.peak_samples if chosen in step]
        return bounds([of(r, step, chosen) for r, step in steps], chosen, len(found)) if steps else None

    return estimate


def added(record: Record, step: dict[str, int], instrument: str) -> float:
    return step[instrument] - (record.live_bytes or 0)


def fragmented(record: Record, step: dict[str, int], instrument: str) -> float:
    return 1 - step.get("allocator.in_use", 0) / max(step["allocator.reserved"], 1)


PEAK = Quantity("peak", bytes_by(lambda record, step, instrument: step[instrument]))
HOST = Quantity("peak by host.rss", bytes_by(lambda record, step, instrument: step[instrument], "host.rss"))
RESERVED = Quantity("peak reserved", bytes_by(lambda record, step, instrument: step[instrument], "allocator.reserved"))
ADDED = Quantity("peak less what is alive between steps", bytes_by(added))
FRAGMENTATION = Quantity("share of the pool that is free at the peak", bytes_by(fragmented, "allocator.reserved"))


def resampled(found: Sequence[Record], statistic: Callable[..., np.ndarray]) -> np.ndarray:
    """Bootstrap values of the median over processes of `statistic` over a process's steps; the same records, the same draws.

    One or two processes cannot show how processes differ: the spread that was measured elsewhere is added.
    """
    rng = np.random.default_rng(zlib.crc32(found[0].case.encode()))
    if len(found) >= 3:
        each = np.array([statistic(np.array(r.step_s)) for r in found])
        return np.median(each[rng.integers(0, len(each), (RESAMPLES, len(each)))], axis=1)
    within = [statistic(np.array(r.step_s)[rng.integers(0, len(r.step_s), (RESAMPLES, len(r.step_s)))], axis=1) for r in found]
    return np.median(within, axis=0) * np.exp(rng.normal(0, BETWEEN_PROCESSES / np.sqrt(len(found)), RESAMPLES))


def step_time(records: Sequence[Record]) -> Estimate | None:
    found = [r for r in records if r.step_s]
    if not found:
        return None
    draws = resampled(found, np.median)
    value = float(np.median([r.step_time_s for r in found]))
    low, high = np.percentile(draws, [2.5, 97.5])
    taken = tuple(r.provenance.measured_at for r in found if r.provenance.hardware.get("device") == "cpu")
    return Estimate(value, float(low), float(high), draws=draws, taken=taken)


TIME = Quantity("step time", step_time)


def share(purpose: str) -> Quantity:
    """A share of the step time. Only its sum over the steps is recorded: as certain as the mean step that it is divided by."""

    def estimate(records: Sequence[Record]) -> Estimate | None:
        found = [r for r in records if r.step_s and purpose in r.shares]
        if not found:
            return None
        value = float(np.median([r.shares[purpose] for r in found]))
        draws = value * np.mean([np.mean(r.step_s) for r in found]) / resampled(found, np.mean)
        low, high = np.percentile(draws, [2.5, 97.5])
        seen = [r.shares[purpose] for r in found]
        return Estimate(value, min(float(low), *seen, value), max(float(high), *seen, value), draws=draws)

    return Quantity(f"share of the step time: {purpose}", estimate)


def exact(name: str, of: Callable[[Record], Any]) -> Quantity:
    """A counted number; values that are not numbers are ignored."""

    def estimate(records: Sequence[Record]) -> Estimate | None:
        seen = [float(v) for r in records if isinstance(v := of(r), int | float) and math.isfinite(v)]
        return Estimate(seen[-1], min(seen), max(seen)) if seen else None

    return Quantity(name, estimate)


def evidence(name: str) -> Quantity:
    """A count from the proof of the effect."""
    return exact(name.replace("_", " "), lambda r: r.effect.evidence.get(name) if r.effect else None)


def observed(name: str) -> Quantity:
    """A value that verification looked at, such as grad_norm."""
    return exact(name, lambda r: r.verification.observed.get(name) if r.verification else None)


def parameters(record: Record) -> int:
    return record.parsed.spec.parameter_count(record.parsed.config)


LIVE = exact("bytes alive between steps", lambda r: r.live_bytes)
PARAMETERS = exact("parameters", parameters)
