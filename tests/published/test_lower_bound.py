"""Lower bounds are below every published peak, and not far below PyTorch's."""

from __future__ import annotations

from framebench.analysis import lower_bound
from framebench.records.record import Record
from tests.published.committed_files import records


def measured() -> list[Record]:
    return [r for r in records() if r.status == "ok" and r.peaks]


def is_at_base_batch(record: Record) -> bool:
    return record.parsed.batch == record.parsed.spec.preset("cpu").base


def test_lower_bounds_are_below_every_measured_peak() -> None:
    """Of a single process: ranks divide what it has."""
    assert len(measured()) > 100
    for record in measured():
        if record.parsed.ranks > 1:
            continue
        least = lower_bound.compute_lower_bound(record.parsed).total
        for instrument, peak in record.peaks.items():
            assert least <= peak, (record.case, instrument)


def test_lower_bounds_are_close_to_the_peaks_of_pytorch() -> None:
    """Training in float32 on the CPU, in the two workloads whose kernels need little workspace:
    within 15 %. A checkpointed step is so at the base batch alone: at larger ones the block that
    runs again holds more than the bound counts of it.
    """
    prefixes = tuple(
        f"{w}/torch/train/{s}/"
        for w in ("transformer", "resnet50")
        for s in ("fp32", "checkpoint", "accumulate")
    )
    found = [
        r
        for r in measured()
        if r.case.startswith(prefixes)
        and r.parsed.size == "cpu"
        and (r.parsed.strategy != "checkpoint" or is_at_base_batch(r))
    ]
    ratios = {
        r.case: r.peaks["host.rss"] / lower_bound.compute_lower_bound(r.parsed).total
        for r in found
        if "host.rss" in r.peaks
    }
    assert len(ratios) >= 8
    assert {case: ratio for case, ratio in ratios.items() if ratio > 1.15} == {}
