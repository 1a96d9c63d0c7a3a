"""What is taken from the records of one case: a number with its interval.

- Times have no interval of their own, but ratios have: of processes that made their steps in turn
  (`framebench/analysis/statistics.py`).
- Bytes: the largest over steps and processes, as everywhere in this suite. They hardly vary, so the
  interval is from the smallest to the largest value, widened by what equal processes differ by
  under the instrument: nothing for counters and plans.
- Counts from the evidence of an effect: exact, from the smallest to the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from framebench.analysis.statistics import RESOLUTION
from framebench.records.record import Record

COUNTED = "counted"


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float
    instrument: str = COUNTED  # or the instrument of memory that read it


@dataclass(frozen=True)
class SampledQuantity:
    """A number of a case, and how it is estimated from its records.

    The records are all of one machine, version and protocol.
    """

    name: str
    estimate: Callable[[Sequence[Record]], Estimate | None]
    # whether the proof of a strategy's effect rests on it: it is then read even if the proof failed
    is_evidence: bool = False
    # whether a record with a wrong result has it too: then only the newest record counts
    includes_wrong: bool = False


def estimate_bytes(values: Sequence[float], instrument: str) -> Estimate:
    """Return the largest value, with an interval that is widened by the instrument's resolution."""
    share, size = RESOLUTION.get(instrument, (0.0, 0))
    low, high = min(values), max(values)
    return Estimate(
        value=high,
        low=low - share * abs(low) - size,
        high=high + share * abs(high) + size,
        instrument=instrument,
    )


def make_peak(name: str, instrument: str = "", without_live: bool = False) -> SampledQuantity:
    """Return the quantity of a peak, by an instrument or by that of the newest record.

    Args:
        name: As it is printed.
        instrument: Which reading of a step is taken; empty takes that of the newest record.
        without_live: Whether the bytes alive between two steps are subtracted.
    """

    def estimate(records: Sequence[Record]) -> Estimate | None:
        """Return the peak over all samples, or None if no record has one."""
        # processes that measure time read no peaks
        measured = [record for record in records if record.peak_samples]
        chosen = instrument
        if measured and not instrument:
            chosen = measured[-1].peak_instrument or ""
        values = []
        for record in measured:
            subtracted = 0
            if without_live:
                subtracted = record.live_bytes or 0
            values += [step[chosen] - subtracted for step in record.peak_samples if chosen in step]
        if not values:
            return None
        return estimate_bytes(values, chosen)

    return SampledQuantity(name, estimate)


def make_count(
    name: str,
    read: Callable[[Record], float | None],
    is_evidence: bool = False,
    includes_wrong: bool = False,
) -> SampledQuantity:
    """Return the quantity of a count that `read` finds in a record.

    The other arguments are fields of SampledQuantity.
    """

    def estimate(records: Sequence[Record]) -> Estimate | None:
        """Return the newest count, with the smallest and the largest, or None without a count."""
        counts = []
        for record in records:
            count = read(record)
            if count is not None:
                counts.append(float(count))
        if not counts:
            return None
        return Estimate(value=counts[-1], low=min(counts), high=max(counts))

    return SampledQuantity(name, estimate, is_evidence=is_evidence, includes_wrong=includes_wrong)


def make_evidence(name: str) -> SampledQuantity:
    """Return the quantity of a count from the proof of a strategy's effect."""
    return make_count(
        name.replace("_", " "), lambda record: read_evidence(record, name), is_evidence=True
    )


def make_fullest_rank(name: str, part: str) -> SampledQuantity:
    """Return the quantity of the bytes that a part of the state takes in the rank with most.

    `part` is such as `optimizer states`. The bytes are those alive between two steps.
    """

    def read(record: Record) -> int | None:
        return max((rank.held.get(part, 0) for rank in record.ranks), default=None)

    return make_count(name, read, is_evidence=True)


def read_fused(record: Record) -> float | None:
    """Return the share of a step's kernels that are fused, or None if they were not counted."""
    kernels = read_evidence(record, "kernels")
    fused = read_evidence(record, "fused_kernels")
    if not kernels or fused is None:
        return None
    return fused / kernels


def estimate_unused(records: Sequence[Record]) -> Estimate | None:
    """Return the largest share of a GPU's reserved bytes that no tensor uses at a step's peak.

    Returns None without an allocator that reserves bytes.
    """
    shares = []
    for record in records:
        for step in record.peak_samples:
            reserved = step.get("allocator.reserved")
            if reserved and "allocator.in_use" in step:
                shares.append(1 - step["allocator.in_use"] / reserved)
    if not shares:
        return None
    return Estimate(value=max(shares), low=min(shares), high=max(shares))


def read_evidence(record: Record, name: str) -> float | None:
    """Return a number of the effect's evidence, or None if it is missing or is no finite number."""
    if record.effect is None:
        return None
    count = record.effect.evidence.get(name)
    if isinstance(count, int | float) and math.isfinite(count):
        return float(count)
    return None


def read_fragments(record: Record) -> float | None:
    """Return the share of a GPU's reserved bytes that is free between blocks in use.

    Both numbers are the largest of all steps, by the allocator's own counters. None without them.
    """
    reserved = record.peaks.get("allocator.reserved")
    if not reserved or "inactive_split_bytes" not in record.allocator:
        return None
    return record.allocator["inactive_split_bytes"] / reserved


def read_verified(record: Record) -> bool | None:
    """Return whether a step passed verification, or None if it was not verified."""
    if record.status == "wrong":
        return False
    return record.verified


def read_parameters(record: Record) -> float | None:
    """Return the number of parameters over that of the plain model, or None if it is unknown."""
    count = read_evidence(record, "parameters")
    plain = read_evidence(record, "parameters_of_the_plain_model")
    if not count or not plain:
        return None
    return count / plain


def read_half_precision(record: Record) -> int | None:
    """Return the number of variables in half precision, or None without evidence."""
    if record.effect is None:
        return None
    dtypes = record.effect.evidence.get("variable_dtypes", {})
    return int(dtypes.get("float16", 0) + dtypes.get("bfloat16", 0))


def read_refused(record: Record) -> int | None:
    """Return 1 if an allocation above the process's share of the GPU was refused, 0 if granted.

    Returns None if it was not tried, or if the allocation is refused without the cap, too.
    """
    if record.effect is None:
        return None
    evidence = record.effect.evidence
    if "refused" not in evidence or evidence.get("refused_without"):
        return None
    return int(bool(evidence["refused"]))


PEAK = make_peak("peak")
RESERVED = make_peak("peak reserved", "allocator.reserved")
ADDED = make_peak("peak less what is alive between steps", without_live=True)
TIME = SampledQuantity("step time", lambda records: None)  # only compared within blocks
QUANTITIES = {
    "peak": PEAK,
    "plan": make_peak("peak by the compiler's plan", "compiler.plan"),
    "host": make_peak("peak by host.rss", "host.rss"),
    "reserved": RESERVED,
    "added": ADDED,
    "time": TIME,
    # for the backward pass, without weights; older records, which count these in, have no number
    "activations": make_evidence("activation_bytes"),
    "alive": make_count("bytes alive between two steps", lambda record: record.live_bytes),
    "parameters": make_count(
        "parameters over those of the plain model", read_parameters, is_evidence=True
    ),
    "verified": make_count("steps that pass verification", read_verified, includes_wrong=True),
    "half precision": make_count(
        "variables in half precision", read_half_precision, is_evidence=True
    ),
    "refused": make_count(
        "allocations above the cap that are refused", read_refused, is_evidence=True
    ),
    "fragments": make_count(
        "share of what is reserved that is free between blocks in use", read_fragments
    ),
    "fused": make_count("share of kernels that are fused", read_fused, is_evidence=True),
    "unused": SampledQuantity("share of what is reserved that no tensor uses", estimate_unused),
    "parameters of the fullest rank": make_fullest_rank(
        "bytes of parameters in the fullest rank", "parameters"
    ),
    "states of the fullest rank": make_fullest_rank(
        "bytes of states in the fullest rank", "optimizer states"
    ),
}


def find_quantity(name: str) -> SampledQuantity:
    """Return a quantity by name, of `QUANTITIES` or such as `evidence: kernels`.

    Raises KeyError for a name that is neither.
    """
    if name.startswith("evidence: "):
        return make_evidence(name.removeprefix("evidence: "))
    return QUANTITIES[name]
