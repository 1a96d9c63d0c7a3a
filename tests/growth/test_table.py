"""Whether readings after each step grow: known slopes are found, and jumps, noise and sawteeth are
no growth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from framebench.growth import table
from framebench.growth.record import Growth, Leftover
from framebench.growth.table import CONFIDENCE, LEAST_STEPS, SENSITIVITY, estimate_slope

RNG = np.random.default_rng(0)
STEPS = 200
NUMBERS = np.arange(STEPS)
FLAT = np.full(STEPS, 10**8)
# bytes either way, as clean workloads have at least
NOISE = {"host.malloc": 200, "host.private": 8192, "host.children": 8192}


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


def judge_readings(readings: Any) -> str:
    """Return the verdict on the readings of a single instrument."""
    return table.judge(make_growth(host_malloc=readings))


def list_growth_notes(readings: Any, rises: Any) -> str:
    """Return the notes on readings of a single instrument, and on what each step took."""
    growth = make_growth(host_malloc=readings)
    growth = growth.model_copy(update={"rises": tuple(map(int, rises))})
    return "\n".join(table.list_notes(growth))


@pytest.mark.parametrize(
    ("added", "verdict"), [(0, "does not grow"), (6000, "too little to tell"), (9000, "grows")]
)
def test_a_rise_below_the_sensitivity_is_not_called_no_growth(added, verdict):
    growth = make_growth(host_malloc=FLAT, host_private=FLAT + added * NUMBERS)
    assert table.tabulate_slopes(growth).texts["verdict"] == ["does not grow", verdict]
    # one instrument that shows growth is enough
    assert (table.judge(growth) == "grows") == (verdict == "grows")


@pytest.mark.parametrize(
    ("readings", "rise", "is_named"),
    [
        (FLAT, 2**26, True),
        (FLAT, 2**18, False),  # less than the kernel's count is off by
        (FLAT + 2**13 * NUMBERS, 2**26, False),  # what grows is the answer
    ],
)
def test_the_largest_step_is_named_where_steps_differ(readings, rise, is_named):
    rises = np.full(STEPS, 10 * 2**20)
    rises[136] += rise  # the 137th after 20 steps of warm-up
    notes = list_growth_notes(readings, rises)
    assert ("step 157 raised resident memory most, by 74.0 MiB" in notes) == is_named
    assert ("steps differ" in notes) == is_named


def test_what_a_few_steps_keep_is_named_if_memory_grows_alone():
    row = {"kind": "object", "what": "x", "made_at": "a:1", "per_step": 0.2, "bytes_per_step": 9}
    update = {"rarely_kept": (Leftover(**row),)}
    for readings, names in ((FLAT, []), (FLAT + 2**20 * (NUMBERS // 5), ["x"])):
        growth = make_growth(host_malloc=readings).model_copy(update=update)
        assert table.tabulate_kept(growth).texts["what"] == names


@pytest.mark.parametrize("steps", [LEAST_STEPS, 200, 777])
def test_a_steady_leak_is_found_to_the_byte(steps):
    assert estimate_slope(10**9 + 1234 * np.arange(steps)) == (1234, 1234, 1234)


@pytest.mark.parametrize(
    ("rise", "verdict"),
    [
        (2**24 * (NUMBERS >= 57) + 2**22 * (NUMBERS >= 131), "does not grow"),  # two jumps
        (2**20 * (NUMBERS // 40), "undecided"),  # a pool that grows again and again
        (2**20 * (NUMBERS // 5), "grows"),
        (2**13 * np.minimum(NUMBERS, 40), "does not grow"),  # a leak that stops
        (2**13 * np.minimum(NUMBERS, 100), "undecided"),
        (2**13 * np.minimum(NUMBERS, 160), "grows"),
    ],
)
def test_growth_is_told_from_jumps_and_from_leaks_that_stop(rise, verdict):
    assert judge_readings(FLAT + rise) == verdict


@pytest.mark.parametrize(
    ("period", "verdict"), [(15, "grows"), (30, "undecided"), (100, "does not grow")]
)
def test_a_leak_at_some_steps_is_found_if_every_segment_has_one(period, verdict):
    for phase in range(period):
        leaks = (NUMBERS + phase) // period  # so many until each step
        assert judge_readings(FLAT + 2**11 * period * leaks) == verdict


@pytest.mark.parametrize(("periods", "grows"), [(4, False), (2, True)])
def test_a_sawtooth_is_no_growth_from_four_periods_on(periods, grows):
    period = STEPS // periods
    verdicts = set()
    for phase in range(period):
        sawtooth = (NUMBERS + phase) % period
        verdicts.add(judge_readings(FLAT + 2**20 * sawtooth))
    assert ("grows" in verdicts) == grows


@pytest.mark.parametrize("instrument", SENSITIVITY)
def test_the_stated_sensitivity_holds_under_the_noise_of_clean_workloads(instrument):
    """Twice the least leak is always found; half of it, and none, are called clean."""
    least, noise = SENSITIVITY[instrument], NOISE.get(instrument, 0)
    for _ in range(100):
        clean = FLAT + RNG.integers(-noise, noise + 1, STEPS)
        assert estimate_slope(clean).judge(least) == "does not grow"
        assert estimate_slope(clean + 0.5 * least * NUMBERS).judge(least) == "does not grow"
        assert estimate_slope(clean + 2 * least * NUMBERS).judge(least) == "grows"


def test_the_slope_interval_has_its_stated_coverage():
    """The readings are random walks, with segments that differ from each other: 94 % of intervals
    hold 0. Those that do not grow on average are rarely reported as growing.
    """
    rng = np.random.default_rng(0)
    missed = accused = 0
    for _ in range(1000):
        walk = rng.normal(0, 4000, STEPS).cumsum()
        slope = estimate_slope(walk)
        missed += not slope.low <= 0 <= slope.high
        accused += judge_readings(FLAT + 4 * walk) == "grows"
    assert 0.04 < missed / 1000 < 0.09
    assert accused / 1000 < 1 - CONFIDENCE
    assert pytest.approx(0.961, abs=0.001) == CONFIDENCE


def test_the_answer_begins_with_the_bytes_of_a_step_and_what_piles_up_first():
    losses = Leftover(
        what="torch.Tensor",
        made_at="train.py:8",
        kind="object",
        note="held by `losses`",
        per_step=1.0,
        bytes_per_step=None,
    )
    growth = make_growth(host_malloc=FLAT + 5_000 * NUMBERS)
    text = table.describe_growth(
        growth.model_copy(
            update={"kept": (losses, losses.model_copy(update={"what": "a later one"}))}
        )
    )
    assert text.startswith("a/b: memory grows by 5,000 B a step (host.malloc).")
    assert "torch.Tensor, made at train.py:8; held by `losses`." in text
    assert table.describe_growth(make_growth(host_malloc=FLAT)) == ""
