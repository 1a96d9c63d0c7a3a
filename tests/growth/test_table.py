"""Whether readings after each step grow: known slopes are found, and jumps, noise and sawteeth are
no growth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from framebench.growth import table
from framebench.growth.record import Growth
from framebench.growth.table import LEAST_STEPS, SEGMENTS, SENSITIVITY, estimate_slope

RNG = np.random.default_rng(0)
STEPS = 200
NUMBERS = np.arange(STEPS)
FLAT = np.full(STEPS, 10**8)
# bytes either way, as clean workloads have at least
NOISE = {
    "allocator.live": 0,
    "allocator.pinned": 0,
    "host.malloc": 200,
    "host.private": 8192,
    "host.shared": 0,
    "host.children": 8192,
}


def make_growth(**readings: Any) -> Growth:
    """Return readings by instrument, `_` for the dot."""
    series = {name.replace("_", "."): tuple(map(int, line)) for name, line in readings.items()}
    return Growth(
        case="a/b",
        file=None,
        warm_up=20,
        bytes=series,
        counts={},
        watched=12,
        kept=(),
        versions={},
        device="cpu",
    )


def judge(readings: Any) -> str:
    """Return the verdict on the readings of a single instrument."""
    return table.judge(make_growth(host_malloc=readings))


def make_noise(instrument: str) -> Any:
    """Return noise as large as that of clean workloads."""
    return RNG.integers(-NOISE[instrument], NOISE[instrument] + 1, STEPS)


@pytest.mark.parametrize("steps", [LEAST_STEPS, 200, 777])
def test_a_steady_leak_is_found_to_the_byte(steps: int) -> None:
    assert estimate_slope(10**9 + 1234 * np.arange(steps)) == (1234, 1234, 1234)


def test_too_few_readings_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        estimate_slope([0] * (LEAST_STEPS - 1))


def test_one_jump_or_two_are_no_growth() -> None:
    jumps = FLAT + 2**24 * (NUMBERS >= 57) + 2**22 * (NUMBERS >= 131)
    assert estimate_slope(jumps) == (0, 0, 0)
    assert judge(jumps) == "does not grow"


def test_a_pool_that_grows_again_and_again_is_not_called_clean() -> None:
    assert judge(FLAT + 2**20 * (NUMBERS // 40)) == "undecided"
    assert judge(FLAT + 2**20 * (NUMBERS // 5)) == "grows"


def judge_all_phases(period: int, rise: Callable[[Any], Any]) -> set[str]:
    """Return the verdicts on readings that repeat after some steps, wherever in the period the
    first step falls.
    """
    return {judge(FLAT + rise(NUMBERS + phase)) for phase in range(period)}


@pytest.mark.parametrize(
    ("every", "message"), [(10, "grows"), (15, "grows"), (30, "undecided"), (100, "does not grow")]
)
def test_a_leak_at_some_steps_is_found_if_every_segment_has_one(every: int, message: str) -> None:
    verdicts = judge_all_phases(every, lambda steps: 2**11 * every * (steps // every))
    assert verdicts == {message}


@pytest.mark.parametrize(
    ("until", "message"), [(0.2, "does not grow"), (0.5, "undecided"), (0.8, "grows")]
)
def test_a_leak_that_stops(until: float, message: str) -> None:
    assert judge(FLAT + 2**13 * np.minimum(NUMBERS, until * STEPS)) == message


@pytest.mark.parametrize(("period", "accused"), [(20, False), (50, False), (100, True)])
def test_a_sawtooth_of_four_periods_is_no_growth(period: int, accused: bool) -> None:
    verdicts = judge_all_phases(period, lambda steps: 2**20 * (steps % period))
    assert ("grows" in verdicts) == accused


@pytest.mark.parametrize("instrument", SENSITIVITY)
def test_the_stated_sensitivity_holds_under_the_noise_of_clean_workloads(instrument: str) -> None:
    """Twice the least leak is always found; half of it, and none, are called clean."""
    least = SENSITIVITY[instrument]
    for _ in range(100):
        clean = FLAT + make_noise(instrument)
        assert estimate_slope(clean).judge(least) == "does not grow"
        assert estimate_slope(clean + 0.5 * least * NUMBERS).judge(least) == "does not grow"
        assert estimate_slope(clean + 2 * least * NUMBERS).judge(least) == "grows"


def test_the_slope_interval_has_its_stated_coverage() -> None:
    """Of a random walk, whose segments are unlike each other: what grows on average not at all is
    accused rarely.
    """
    walks = RNG.normal(0, 4000, (1000, STEPS)).cumsum(axis=1)
    slopes = [estimate_slope(walk) for walk in walks]
    missed = np.mean([not slope.low <= 0 <= slope.high for slope in slopes])
    assert missed < 2 * (1 - table.CONFIDENCE)
    accused = np.mean([judge(FLAT + walk) == "grows" for walk in 4 * walks])
    assert accused < 1 - table.CONFIDENCE
    assert pytest.approx(0.961, abs=0.001) == table.CONFIDENCE
    assert SEGMENTS == 13


def test_one_instrument_is_enough_to_grow_and_every_one_is_needed_to_be_clean() -> None:
    rising = FLAT + 2**14 * NUMBERS
    pool = FLAT + 2**20 * (NUMBERS // 40)
    assert table.judge(make_growth(host_malloc=FLAT, host_private=rising)) == "grows"
    assert table.judge(make_growth(host_malloc=FLAT, host_private=FLAT)) == "does not grow"
    assert table.judge(make_growth(host_malloc=FLAT, host_private=pool)) == "undecided"
