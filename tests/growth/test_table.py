"""Whether readings after each step grow: known slopes are found, and jumps, noise and sawteeth are no growth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from framebench.growth import table as growth
from framebench.growth.record import Growth
from framebench.growth.table import LEAST_STEPS, SEGMENTS, SENSITIVITY, slope

RNG = np.random.default_rng(0)
STEPS = 200
FLAT = np.full(STEPS, 10**8)
NOISE = {
    "allocator.live": 0, "allocator.pinned": 0, "host.malloc": 200, "host.private": 8192, "host.shared": 0,
    "host.children": 8192,
}  # fmt: skip  # bytes either way, as clean workloads have at least


def found(counts: dict[str, Any] | None = None, **readings: Any) -> Growth:
    """Readings by instrument, `_` for the dot."""
    lines = {name.replace("_", "."): tuple(map(int, line)) for name, line in readings.items()}
    fields: dict[str, Any] = {"file": None, "warm_up": 20, "watched": 12, "kept": (), "versions": {}, "device": "cpu"}
    return Growth(case="a/b", bytes=lines, counts=counts or {}, **fields)


def verdict(line: Any) -> str:
    return growth.verdict(found(host_malloc=line))


def noise(instrument: str) -> Any:
    return RNG.integers(-NOISE[instrument], NOISE[instrument] + 1, STEPS)


@pytest.mark.parametrize("steps", [LEAST_STEPS, 200, 777])
def test_a_steady_leak_is_found_to_the_byte(steps: int) -> None:
    assert slope(10**9 + 1234 * np.arange(steps)) == (1234, 1234, 1234)


def test_too_few_readings_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        slope([0] * (LEAST_STEPS - 1))


def test_one_jump_or_two_are_no_growth() -> None:
    jumps = FLAT + 2**24 * (np.arange(STEPS) >= 57) + 2**22 * (np.arange(STEPS) >= 131)
    assert slope(jumps) == (0, 0, 0)
    assert verdict(jumps) == "does not grow"


def test_a_pool_that_grows_again_and_again_is_not_called_clean() -> None:
    assert verdict(FLAT + 2**20 * (np.arange(STEPS) // 40)) == "undecided"
    assert verdict(FLAT + 2**20 * (np.arange(STEPS) // 5)) == "grows"


def shifted(every: int, rises: Any) -> set[str]:
    """What is said of readings that repeat every so many steps, wherever the first step of all falls."""
    return {verdict(FLAT + rises(np.arange(STEPS) + phase)) for phase in range(every)}


@pytest.mark.parametrize(("every", "message"), [(10, "grows"), (15, "grows"), (30, "undecided"), (100, "does not grow")])
def test_a_leak_at_some_steps_is_found_if_every_segment_has_one(every: int, message: str) -> None:
    assert shifted(every, lambda steps: 2**11 * every * (steps // every)) == {message}


@pytest.mark.parametrize(("until", "message"), [(0.2, "does not grow"), (0.5, "undecided"), (0.8, "grows")])
def test_a_leak_that_stops(until: float, message: str) -> None:
    assert verdict(FLAT + 2**13 * np.minimum(np.arange(STEPS), until * STEPS)) == message


@pytest.mark.parametrize(("period", "accused"), [(20, False), (50, False), (100, True)])
def test_a_sawtooth_of_four_periods_is_no_growth(period: int, accused: bool) -> None:
    assert ("grows" in shifted(period, lambda steps: 2**20 * (steps % period))) == accused


@pytest.mark.parametrize("instrument", SENSITIVITY)
def test_the_stated_sensitivity_holds_under_the_noise_of_clean_workloads(instrument: str) -> None:
    """Twice the least leak is always found; half of it, and none, are called clean."""
    for _ in range(100):
        clean = FLAT + noise(instrument)
        message = [
            slope(clean + factor * SENSITIVITY[instrument] * np.arange(STEPS)).verdict(SENSITIVITY[instrument])
            for factor in (0, 0.5, 2)
        ]
        assert message == ["does not grow", "does not grow", "grows"]


def test_the_slope_interval_has_its_stated_coverage() -> None:
    """Of a random walk, whose segments are unlike each other: what grows on average not at all is accused rarely."""
    walks = RNG.normal(0, 4000, (1000, STEPS)).cumsum(axis=1)
    missed = np.mean([not s.low <= 0 <= s.high for s in (slope(walk) for walk in walks)])
    assert missed < 2 * (1 - growth.CONFIDENCE)
    accused = np.mean([verdict(FLAT + walk) == "grows" for walk in 4 * walks])
    assert accused < 1 - growth.CONFIDENCE
    assert pytest.approx(0.961, abs=0.001) == growth.CONFIDENCE
    assert SEGMENTS == 13


def test_one_instrument_is_enough_to_grow_and_every_one_is_needed_to_be_clean() -> None:
    more = FLAT + 2**14 * np.arange(STEPS)
    assert growth.verdict(found(host_malloc=FLAT, host_private=more)) == "grows"
    assert growth.verdict(found(host_malloc=FLAT, host_private=FLAT)) == "does not grow"
    assert growth.verdict(found(host_malloc=FLAT, host_private=FLAT + 2**20 * (np.arange(STEPS) // 40))) == "undecided"
