"""Lower bounds are below every published peak, and not far below PyTorch's."""

from __future__ import annotations

from framebench.analysis import lower_bound
from framebench.records.record import Record
from tests.published.committed_files import read_records

CLOSE = ("fp32", "checkpoint", "accumulate")


def list_measured() -> list[Record]:
    return [record for record in read_records() if record.status == "ok" and record.peaks]


def test_lower_bounds_are_below_every_measured_peak() -> None:
    """Only cases of a single process are compared, since ranks divide its memory."""
    checked = 0
    for record in list_measured():
        if record.parsed.ranks == 1:
            least = lower_bound.compute_lower_bound(record.parsed).total
            assert least <= min(record.peaks.values()), record.case
            checked += 1
    assert checked > 100


def test_lower_bounds_are_within_15_per_cent_of_pytorch() -> None:
    """In float32 on the CPU, in the two workloads whose kernels need little workspace.

    A checkpointed step is so at the base batch alone: at larger ones the block that runs again
    holds more than the bound counts of it.
    """
    checked = set()
    for record in list_measured():
        case = record.parsed
        is_close = case.workload in ("transformer", "resnet50") and case.strategy in CLOSE
        is_usual = (case.framework, case.scenario, case.size) == ("torch", "train", "cpu")
        is_small = case.strategy != "checkpoint" or case.batch == case.spec.preset("cpu").base
        if is_close and is_usual and is_small and "host.rss" in record.peaks:
            least = lower_bound.compute_lower_bound(case).total
            assert record.peaks["host.rss"] <= 1.15 * least, record.case
            checked.add(record.case)
    assert len(checked) >= 8
