"""Rounds of a comparison: pairs of records that were made one right after the other, and what is kept of them as JSON."""

from __future__ import annotations

from typing import Any, NamedTuple

from framebench.records.record import Record

ROUNDS = 12  # of the study of what verdicts find


class Round(NamedTuple):
    """One record of each arm; `base` is what `change` is compared with."""

    base: Record
    change: Record


def rounds_as_json(rounds: list[Round]) -> dict[str, Any]:
    """What was measured, round by round, and under which conditions. Seconds and bytes."""
    first = rounds[0].base.provenance
    return {
        "base": rounds[0].base.case,
        "change": rounds[0].change.case,
        "session": first.session,
        "commit": first.commit,
        "dirty": first.dirty,
        "command": first.command,
        "machine": first.machine,
        "hardware": first.hardware,
        "versions": {**first.versions, **rounds[0].change.provenance.versions},
        "threads": first.threads,
        "core": first.core,
        "protocol": first.protocol,
        "rounds": [{arm: process(record) for arm, record in zip(Round._fields, r)} for r in rounds],
    }


def process(record: Record) -> dict[str, Any]:
    """One arm of one round: a process for the times and one for the peak."""
    proof = record.provenance
    return {
        "step_s": record.step_s,
        "cpu_s_per_step": record.cpu_s_per_step,
        "shares": record.shares,
        "peak_bytes": record.peak_bytes,
        "peak_instrument": record.peak_instrument,
        "load_before": proof.load_before,
        "load_after": proof.load_after,
        "measured_at": proof.measured_at.isoformat(),
    }
