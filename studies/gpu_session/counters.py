"""What records of a GPU count beyond the comparison tables.

Pool, process and context; fragmentation and retries; time by the device's events and wall time;
energy; utilisation.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from framebench.analysis.rendering import MIB, Table, format_number
from framebench.analysis.selection import select_cases
from framebench.records.record import Record
from studies.gpu_session.rates import utilisation

HEAD = (
    "framework",
    "case",
    "in use",
    "plan",
    "cold",
    "reserved",
    "process",
    "context",
    "split",
    "retries",
    "step ms",
    "synced ms",
    "device ms",
    "J/step",
    "MFU",
)


def _cells(record: Record) -> tuple[str, ...]:
    """One row; `-` where the card, the driver or the framework does not count it."""
    peaks, more = record.peaks, record.allocator
    synced_s, device_s = (
        statistics.median(s) if s else None for s in (record.synced_step_s, record.device_step_s)
    )
    used = utilisation(record.parsed, record.step_time_s, record.provenance.hardware.get("device"))
    return (
        f"{record.parsed.framework} {record.framework_version}",
        record.case,
        format_number(peaks.get("allocator.in_use"), ",.1f", 1 / MIB),
        format_number(peaks.get("compiler.plan"), ",.1f", 1 / MIB),
        format_number(record.cold_peaks.get("allocator.in_use"), ",.1f", 1 / MIB),
        format_number(peaks.get("allocator.reserved"), ",.1f", 1 / MIB),
        format_number(peaks.get("device.process", peaks.get("device.card")), ",.1f", 1 / MIB),
        *(
            format_number(more.get(name), ",.1f", 1 / MIB)
            for name in ("context_bytes", "inactive_split_bytes")
        ),
        format_number(more.get("alloc_retries"), "d"),
        format_number(record.step_time_s, ",.2f", 1e3),
        format_number(synced_s, ",.2f", 1e3),
        format_number(device_s, ",.2f", 1e3),
        format_number(record.energy_j_per_step, ",.2f"),
        format_number(used, ".1%"),
    )


def table(records: Iterable[Record]) -> Table:
    """Of every case measured on a card."""
    rows = [
        m.record
        for m in select_cases(records)
        if m.newest.status == "ok" and m.record.provenance.gpu
    ]
    process_notes = dict.fromkeys(
        f"{r.case}: {why}" for r in rows if (why := r.provenance.gpu.get("device.process"))
    )
    caption = (
        "Sizes in MiB (2^20 bytes). in use: JAX counts whole chunks of its pool, so that XLA's "
        "plan may be less. cold: the first step's, with what compiling and tuning took. reserved: "
        "the pool's, in which what the first step took stays. process: NVML, context included, or "
        "where it lists none, by how much the whole card's use rose (device.card); context = "
        "process - pool. step ms: of steps queued together; synced ms: waited for one by one. "
        "device ms: between events on the stream, where the framework shows them. J/step: the "
        "whole card. MFU: model FLOPs (framebench/analysis/flops.py) by wall time and the card's "
        "dense rate (studies/gpu_session/rates.py)."
    )
    return Table.of_text(
        "On a GPU", caption, HEAD, tuple(map(_cells, rows)), notes=tuple(process_notes)
    )
