"""What the fault campaign holds against a record."""

from __future__ import annotations

import math
from collections.abc import Callable

from framebench.records.record import ROUNDS, Record

Tried = Callable[..., None]


def believed(record: Record) -> bool:
    """Whether tables would show its numbers without a warning."""
    verified = record.verification is not None and record.verification.passed
    return record.status == "ok" and verified and record.effect is not None and record.effect.proven


def borne_out(record: Record) -> bool:
    """Whether an `ok` is complete, and right by its own observations, compared with golden.json anew. At sizes without float64
    values with those of the record that stood in for them; that one itself is only finite."""
    assert record.verification
    observed = record.verification.observed
    if record.parsed.golden_key in record.parsed.spec.golden:
        golden = record.parsed.spec.golden[record.parsed.golden_key]
    elif record.verification.against:
        golden = {k: v for k, v in record.verification.golden.items() if v is not None}
    else:
        return _timed(record) and all(v is not None and math.isfinite(v) for v in observed.values())
    scale = golden | {"logits_checksum": golden.get("logits_norm")}  # a projection of the logits may be near zero
    error = {k: abs((observed.get(k) or 0) - golden[k]) / abs(scale[k]) for k in record.verification.tolerance if k in golden}
    near = {k: e <= record.verification.tolerance[k] for k, e in error.items()}
    return bool(near) and all(near.values()) and _timed(record)


def _timed(record: Record) -> bool:
    """Or measured for its memory alone."""
    read = record.peak_bytes is not None or record.turns is not None  # of several blocks the first has the memory
    for_peaks = bool(record.peaks) and (len(record.turns.round) < ROUNDS if record.turns else record.parsed.ranks > 1)
    return (len(record.step_s) >= ROUNDS or for_peaks) and read
