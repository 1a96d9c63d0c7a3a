"""Numbers of a card that is not here: a prediction's published error is in the interval, against it on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.features.claims.plans import Plan, bounds, planned_ratio
from framebench.features.claims.rule import Target, decide

FILE = Path("made-up.json")
LESS = Target(-1, 1.0, 0.01)


def plan(peak: int, error: float = 0.1, standing: int = 0) -> Plan:
    return Plan(FILE, "1", error, peak, standing, peak)


@pytest.mark.parametrize("error", [0.0, 0.05, 0.1])
def test_every_pair_of_measured_peaks_within_the_error_is_in_the_interval(error: float) -> None:
    found = planned_ratio(plan(60, error), plan(100, error), "peak")
    assert found.value == pytest.approx(0.6)
    for one in (-error, 0.0, error):
        for other in (-error, 0.0, error):
            measured = (60 / (1 + one)) / (100 / (1 + other))
            assert found.low - 1e-9 <= measured <= found.high + 1e-9
    worst = (1 + error) / (1 - error)
    assert (found.low, found.high) == pytest.approx((0.6 / worst, 0.6 * worst))


def test_an_effect_within_the_error_is_undecided() -> None:
    assert decide(planned_ratio(plan(90, 0.08), plan(100, 0.08), "peak"), LESS) == "undecided"
    assert decide(planned_ratio(plan(60, 0.08), plan(100, 0.08), "peak"), LESS) == "reproduced"
    assert decide(planned_ratio(plan(100, 0.08), plan(100, 0.08), "peak"), LESS) == "undecided", "too coarse for none"


def test_what_a_step_adds_has_the_errors_of_both_its_parts() -> None:
    least, value, most = bounds(plan(100, 0.1, standing=40), "added")
    assert value == 60
    assert (least, most) == pytest.approx((100 / 1.1 - 40 / 0.9, 100 / 0.9 - 40 / 1.1))
    assert bounds(plan(100, 0.1, standing=95), "added")[0] == 1, "never below nothing"
