"""Planted slowdowns lengthen a step, and planted memory raises its peak, by their shares."""

from __future__ import annotations

import statistics

import pytest

from framebench.engine.blocks import Run, measure_group
from framebench.engine.groups import Group
from framebench.engine.runner import Options
from framebench.engine.timed_process import Variant
from framebench.records.record import Record
from framebench.suite.case import Case

# so large that the kernel's count of pages is exact enough
CASE = Case.from_id("transformer/torch/eval/no_grad/b4/cpu")


@pytest.mark.all_cases
def test_planted_shares_are_measured(environment, results):
    """The bounds are far wider than what equal variants differ by on a busy machine."""
    plain = Variant(CASE, environment["torch"])
    planted = Variant(CASE, environment["torch"], spin=1.0, extra=0.5)
    with Run("s", Options(rounds=5), results) as run:
        measure_group(Group("planted", (plain, planted)), run)
        (plain_record,) = run.get_records(plain)
        (planted_record,) = run.get_records(planted)
    assert plain_record.usable
    assert planted_record.status == "ok"
    assert not planted_record.usable
    assert 1.5 < compute_median_ratio(plain_record, planted_record) < 2.7
    assert planted_record.peak_bytes / plain_record.peak_bytes == pytest.approx(1.5, abs=0.05)


def compute_median_ratio(base: Record, change: Record) -> float:
    """Return the median ratio of step times over the rounds."""
    pairs = zip(base.step_s, change.step_s, strict=True)
    return statistics.median(changed / plain for plain, changed in pairs)
