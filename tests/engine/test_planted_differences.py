"""What studies plant is there: a step that spins takes so much longer, and one that holds more has
so much larger a peak.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from framebench.engine.blocks import Run, measure_group
from framebench.engine.environments import Environment
from framebench.engine.groups import Group
from framebench.engine.runner import Options
from framebench.engine.timed_process import Variant
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.case import Case

# so large that the kernel's count of pages is exact enough
CASE = Case("transformer", "torch", "eval", "no_grad", 4, "cpu")


@pytest.mark.all_cases
def test_a_share_of_time_and_of_memory(environment: dict[str, Environment], results: Path) -> None:
    """A ratio of live variants: the bounds are far wider than what equal variants differ by, on a
    busy machine too.
    """
    plain, planted = (
        Variant(CASE, environment["torch"]),
        Variant(CASE, environment["torch"], spin=1.0, extra=0.5),
    )
    with Run("s", Options(rounds=5), results) as run:
        measure_group(Group("planted", (plain, planted)), run)
        (one,), (other,) = run.records(plain), run.records(planted)
    assert one.usable
    assert other.status == "ok"
    assert not other.usable
    assert 1.5 < ratio(one, other) < 2.7
    assert other.peak_bytes is not None
    assert other.peak_bytes / (one.peak_bytes or 1) == pytest.approx(1.5, abs=0.05)
    assert len(list(store.read_all(results))) == 2


def ratio(one: Record, other: Record) -> float:
    """Median over the rounds that both have."""
    return statistics.median(b / a for a, b in zip(one.step_s, other.step_s, strict=True))
