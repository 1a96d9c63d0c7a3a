"""Ratios over live blocks: how often their interval holds the truth, and what has a ratio."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from framebench.analysis.blocks import Blocks, compute_log_ratios
from framebench.analysis.reports.verdicts import compare_instructions
from framebench.analysis.statistics import (
    FEW,
    NONE,
    PEAK,
    TIME,
    UNDECIDED,
    Pool,
    Ratio,
    compare_blocks,
    compare_peaks,
    compare_rounds,
    correct_by_holm,
    decide,
    pool_variances,
)
from framebench.records.record import Record
from framebench.suite.case import Case
from tests.fake_records import blocks, record

BASE, CHECKPOINT, ACCUMULATE = (
    Case("transformer", "torch", "train", strategy, 4, "tiny")
    for strategy in ("fp32", "checkpoint", "accumulate")
)
# standard deviations of log step times between processes and between rounds, as measured
PROCESS, ROUND = 0.02, 0.05
ROUNDS = 8


def simulate_logs(
    rng: np.random.Generator, pages: int, variants: int, blocks_each: int
) -> np.ndarray:
    """Return logs of step times, (pages, variants, blocks, rounds).

    The machine's drift is a walk that all variants of a round share.
    """
    steps = rng.normal(0, 0.03, (pages, 1, blocks_each, ROUNDS))
    drift = rng.normal(0, 0.1, (pages, 1, blocks_each, 1)) + steps.cumsum(axis=-1)
    process = rng.normal(0, PROCESS, (pages, variants, blocks_each, 1))
    noise = rng.normal(0, ROUND, (pages, variants, blocks_each, ROUNDS))
    return np.asarray(drift + process + noise)


def get_seconds(logs: np.ndarray) -> dict[int, float]:
    """Return the step times by round."""
    return dict(enumerate(np.exp(logs).tolist()))


def compare_variants(base: np.ndarray, change: np.ndarray) -> list[float]:
    """Return the log ratio of each block, from logs of step times, (blocks, rounds)."""
    logs = []
    for base_block, change_block in zip(base, change):
        log = compare_rounds(get_seconds(base_block), get_seconds(change_block))
        assert log is not None
        logs.append(log)
    return logs


def compare_page(logs: np.ndarray, effects: np.ndarray) -> list[Ratio]:
    """Return the ratios of one page: of every variant, with its effect, to the first."""
    pairs = []
    for variant, effect in zip(logs[1:], effects):
        pairs.append(compare_variants(logs[0], variant + effect))
    ratios = []
    for pair in pairs:
        others = [other for other in pairs if other is not pair]
        ratios.append(compare_blocks(pair, pool_variances(others)))
    return ratios


def get_ends(ratio: Ratio) -> tuple[float, float]:
    """Return the ends of an interval that is there."""
    assert ratio.low is not None
    assert ratio.high is not None
    return ratio.low, ratio.high


def holds(ratio: Ratio, truth: float) -> bool:
    """Return whether the interval holds the truth."""
    low, high = get_ends(ratio)
    return low <= truth <= high


@pytest.mark.parametrize(("blocks_each", "variants"), [(3, 2), (3, 4), (3, 6), (5, 2), (5, 6)])
def test_the_interval_holds_the_truth_nineteen_times_in_twenty(
    blocks_each: int, variants: int
) -> None:
    rng = np.random.default_rng(blocks_each * 10 + variants)
    pages = 600
    effects = np.linspace(-0.3, 0.3, variants - 1)

    held = 0
    for logs in simulate_logs(rng, pages, variants, blocks_each):
        # all ratios of a page share a baseline and are not independent: only the first counts
        first = compare_page(logs, effects)[0]
        held += holds(first, math.exp(effects[0]))

    low, high = stats.binom.ppf([0.001, 0.999], pages, 0.95)
    assert low <= held, f"{held} of {pages} intervals hold the truth"
    # equal variances are known better than the rule takes for granted: it may be cautious, not idle
    assert held <= max(high, 0.985 * pages), f"{held} of {pages}: too wide to be of use"


def test_pairing_within_blocks_makes_intervals_three_times_as_narrow() -> None:
    """The same steps, but with variants paired across different blocks."""
    apart = []
    together = []
    for logs in simulate_logs(np.random.default_rng(3), 300, 2, 5):
        base, change = logs
        apart.append(compare_blocks(compare_variants(base, np.roll(change, 1, axis=0))))
        together.append(compare_page(logs, np.zeros(1))[0])

    def get_width(ratios: list[Ratio]) -> float:
        widths = [math.log(high / low) for low, high in map(get_ends, ratios)]
        return float(np.median(widths))

    assert get_width(apart) > 3 * get_width(together)


MISSED = math.nan  # a round that a process did not take part in
logs_of_blocks = st.lists(st.floats(-1, 1), min_size=1, max_size=6)
pools = st.builds(Pool, st.floats(0, 1), st.integers(0, 9))


@settings(deadline=None)
@given(logs_of_blocks, pools)
def test_swapping_the_sides_inverts_the_ratio(logs: list[float], pool: Pool) -> None:
    ratio = compare_blocks(logs, pool)
    swapped = compare_blocks([-log for log in logs], pool)

    assert swapped.value == pytest.approx(1 / ratio.value)
    if ratio.low is None:
        assert swapped.low is None
        return
    low, high = get_ends(ratio)
    assert get_ends(swapped) == pytest.approx((1 / high, 1 / low))
    assert swapped.p == pytest.approx(ratio.p)
    assert low <= ratio.value * (1 + 1e-12)
    assert ratio.value <= high * (1 + 1e-12)


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=FEW, max_size=6))
def test_without_other_pairs_it_is_students_interval(logs: list[float]) -> None:
    ratio = compare_blocks(logs)
    error = stats.sem(logs)
    if error > 1e-9:
        ends = stats.t.interval(0.95, len(logs) - 1, np.mean(logs), error)
        assert get_ends(ratio) == pytest.approx(tuple(np.exp(ends)))
        assert ratio.p == pytest.approx(stats.ttest_1samp(logs, 0).pvalue, abs=1e-9)


@pytest.mark.parametrize(
    ("pool_freedom", "prior"), [(10, 4), (1, 1)], ids=["many other pairs", "one other pair"]
)
def test_the_variance_is_moderated_by_other_pairs(pool_freedom: int, prior: int) -> None:
    logs, variance = [0.10, 0.11, 0.12], 0.0001

    ratio = compare_blocks(logs, Pool(0.0004, pool_freedom))

    freedom = prior + 2
    error = math.sqrt((prior * 0.0004 + 2 * variance) / freedom / 3)
    half = stats.t.ppf(0.975, freedom) * error
    assert ratio.value == compare_blocks(logs).value
    assert math.log(get_ends(ratio)[1] / ratio.value) == pytest.approx(half)


@pytest.mark.parametrize("logs", [[0.1], [0.10, 0.11]])
def test_too_few_blocks_have_no_interval_whatever_other_pairs_say(logs: list[float]) -> None:
    ratio = compare_blocks(logs, Pool(0.0001, 10))
    assert ratio == Ratio(math.exp(sum(logs) / len(logs)), blocks=len(logs))
    assert not ratio.decided
    assert decide(ratio, TIME) == UNDECIDED


@pytest.mark.parametrize("variance", [0.0001, 0.0], ids=["calm pairs", "pairs without spread"])
def test_a_pair_that_is_noisier_than_others_keeps_its_own_variance(variance: float) -> None:
    noisy = [0.1, -0.2, 0.3]
    assert compare_blocks(noisy, Pool(variance, 20)) == compare_blocks(noisy)


def test_the_prior_is_the_median_variance() -> None:
    logs = np.random.default_rng(0).normal(0, 0.02, (2001, 3))
    assert pool_variances(logs.tolist()).variance == pytest.approx(0.0004, rel=0.06)
    logs[:400] *= 10  # a fifth are far noisier
    assert pool_variances(logs.tolist()).variance == pytest.approx(0.0004, rel=0.5)


def test_pairs_of_one_block_give_no_prior() -> None:
    assert pool_variances([[0.1], [0.2]]) == Pool()


def simulate_coverage(blocks_each: int) -> tuple[float, float]:
    """Return how many intervals of noisy, and of calm pairs hold the truth.

    A fifth of a page's pairs are four times as noisy as the others.
    """
    rng = np.random.default_rng(5)
    is_noisy = np.arange(20) < 4
    noise = np.where(is_noisy, 0.08, 0.02)[:, np.newaxis]
    held_noisy = []
    held_calm = []
    for _ in range(250):
        logs = rng.normal(0, noise, (20, blocks_each))
        for i in (0, 1, 10, 15):
            others = pool_variances(np.delete(logs, i, axis=0).tolist())
            held = holds(compare_blocks(logs[i].tolist(), others), 1)
            (held_noisy if is_noisy[i] else held_calm).append(held)
    return float(np.mean(held_noisy)), float(np.mean(held_calm))


def test_neither_calm_nor_noisy_pairs_have_intervals_that_mislead() -> None:
    noisy, calm = simulate_coverage(5)
    assert noisy > 0.91
    assert 0.935 < calm < 0.995


def test_intervals_of_noisy_pairs_would_hold_less_of_fewer_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why there is none of two; studies/noise has these shares."""
    monkeypatch.setattr("framebench.analysis.statistics.FEW", 2)
    assert 0.77 < simulate_coverage(2)[0] < 0.84
    assert 0.85 < simulate_coverage(3)[0] < 0.91


def test_without_spread_the_interval_is_a_point() -> None:
    assert compare_blocks([0.0, 0.0, 0.0]) == Ratio(1.0, 1.0, 1.0, 1.0, 3)
    same = compare_blocks([0.1, 0.1, 0.1])
    assert (same.low, same.high, same.p) == pytest.approx((same.value, same.value, 0.0))


@pytest.mark.parametrize("logs", [[], [math.nan], [0.1, math.inf]])
def test_what_is_no_number_is_refused(logs: list[float]) -> None:
    with pytest.raises(ValueError, match="must be numbers"):
        compare_blocks(logs)


@pytest.mark.parametrize("wrong", [math.nan, 0.0, -1.0, math.inf])
def test_times_that_are_none_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        compare_rounds({0: 1.0, 1: wrong}, {0: 1.0, 1: 1.0})


def test_only_common_rounds_are_compared() -> None:
    assert compare_rounds({0: 1.0, 1: 9.0}, {0: 2.0, 2: 1.0}) == pytest.approx(math.log(2))
    assert compare_rounds({0: 1.0}, {1: 1.0}) is None


def test_holm_is_as_in_the_book() -> None:
    assert correct_by_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert correct_by_holm([0.9, 0.8]) == [1.0, 1.0]
    assert correct_by_holm([]) == []


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (Ratio(1.10, 1.05, 1.15, 0.001), "slower"),
        (Ratio(0.90, 0.88, 0.93, 0.001), "faster"),
        (Ratio(1.00, 0.98, 1.02, 0.9), NONE),
        (Ratio(1.02, 1.01, 1.029, 0.001), NONE),  # significant, but too small to matter
        (Ratio(1.02, 1.005, 1.04, 0.03), UNDECIDED),
        (Ratio(1.10, 0.95, 1.25, 0.2), UNDECIDED),
        (Ratio(1.10), UNDECIDED),
    ],
)
def test_verdicts_on_times(ratio: Ratio, verdict: str) -> None:
    assert decide(ratio, TIME) == verdict


def test_a_p_value_corrected_for_many_tests_decides() -> None:
    ratio = Ratio(1.06, 1.01, 1.11, 0.03)
    assert decide(ratio, TIME) == "slower"
    assert decide(ratio, TIME, correct_by_holm([0.03, 0.9])[0]) == UNDECIDED


def test_peaks_of_an_exact_instrument_have_a_point_for_an_interval() -> None:
    ratio = compare_peaks([100, 100], [102, 102], "allocator.in_use")
    assert (ratio.value, *get_ends(ratio)) == pytest.approx((1.02, 1.02, 1.02))
    assert decide(ratio, PEAK) == "more memory"


def test_peaks_of_resident_memory_have_its_resolution_for_an_interval() -> None:
    ratio = compare_peaks([2**28], [2**28], "host.rss")
    assert get_ends(ratio) == pytest.approx((0.993, 1.007), abs=1e-3)
    assert decide(ratio, PEAK) == NONE


def test_two_per_cent_of_resident_memory_are_a_difference() -> None:
    small, large = [2**28], [2**28 * 1.02]
    assert decide(compare_peaks(small, large, "host.rss"), PEAK) == "more memory"
    assert decide(compare_peaks(large, small, "host.rss"), PEAK) == "less memory"


def test_four_pages_of_a_peak_of_a_few_dozen_are_undecided() -> None:
    ratio = compare_peaks([300 * 2**10], [316 * 2**10], "host.rss")
    assert decide(ratio, PEAK) == UNDECIDED


def test_peaks_without_processes_are_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        compare_peaks([], [1.0], "host.rss")


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ([1_000_100], "same work"),
        ([1_000_000, 1_000_100, 2_000_000], "same work"),  # the median counts
        ([1_010_000], "other work"),
        ([990_000], "other work"),
    ],
)
def test_instructions_tell_equal_work(counts: list[int], verdict: str) -> None:
    comparison = compare_instructions(
        [record(instructions=[1_000_000])], [record(instructions=counts)]
    )
    assert comparison is not None
    assert comparison.verdict == verdict


def test_work_is_not_compared_without_instructions() -> None:
    assert compare_instructions([record()], [record(instructions=[1])]) is None


def select_case(records: list[Record], case: Case) -> list[Record]:
    """Return the records of one case."""
    return [record for record in records if record.parsed == case]


def test_records_are_paired_by_block_and_round() -> None:
    base_times = [[1.0, 2.0, 4.0, 8.0], [1.0, 1.0, 1.0, 1.0]]
    change_times = [[2.0, 4.0, MISSED, 16.0], [MISSED, 3.0, 3.0, 3.0]]
    records = blocks([(BASE, base_times), (CHECKPOINT, change_times)])

    logs = compute_log_ratios(select_case(records, BASE), select_case(records, CHECKPOINT))

    assert logs == pytest.approx([math.log(2), math.log(3)])


def test_records_of_different_blocks_have_no_ratio() -> None:
    records = blocks([(BASE, [[1.0], [1.0]]), (CHECKPOINT, [[2.0], [2.0]])])
    second_base = select_case(records, BASE)[1:]
    first_change = select_case(records, CHECKPOINT)[:1]
    assert compute_log_ratios(second_base, first_change) == []
    assert Blocks(records).compare(second_base, first_change) is None


def test_a_block_of_two_rounds_gives_no_ratio() -> None:
    """It was only there for the peaks."""
    change_times = [[2.0, 2.0, 2.0], [4.0, 4.0, MISSED]]
    records = blocks([(BASE, [[1.0] * 3, [1.0] * 3]), (CHECKPOINT, change_times)])
    logs = compute_log_ratios(select_case(records, BASE), select_case(records, CHECKPOINT))
    assert logs == pytest.approx([math.log(2)])


def test_a_case_against_itself_is_two_processes() -> None:
    records = blocks([(BASE, [[1.0, 1.0]]), (BASE, [[1.5, 1.5]])])
    assert compute_log_ratios(records, records) == pytest.approx([math.log(1.5)])


@pytest.fixture(scope="module")
def three_cases() -> list[Record]:
    """Return three blocks of a baseline and two candidates."""
    rng = np.random.default_rng(0)
    times = {}
    for case in (BASE, CHECKPOINT, ACCUMULATE):
        times[case] = np.exp(rng.normal(0, 0.02, (3, 4))).tolist()
    return blocks(list(times.items()))


def test_a_ratio_is_moderated_by_all_pairs_but_itself(three_cases: list[Record]) -> None:
    base, one, other = (select_case(three_cases, c) for c in (BASE, CHECKPOINT, ACCUMULATE))
    expected = compare_blocks(
        compute_log_ratios(base, one), pool_variances([compute_log_ratios(base, other)])
    )
    assert Blocks(three_cases).compare(base, one) == expected


def test_a_ratio_of_two_candidates_is_moderated_by_both_baselines(
    three_cases: list[Record],
) -> None:
    base, one, other = (select_case(three_cases, c) for c in (BASE, CHECKPOINT, ACCUMULATE))
    pool = pool_variances([compute_log_ratios(base, one), compute_log_ratios(base, other)])
    expected = compare_blocks(compute_log_ratios(one, other), pool)
    assert Blocks(three_cases).compare(one, other) == expected


def test_a_single_pair_has_nothing_to_be_moderated_by(three_cases: list[Record]) -> None:
    base, one = select_case(three_cases, BASE), select_case(three_cases, CHECKPOINT)
    ratio = Blocks([*base, *one]).compare(base, one)
    assert ratio == compare_blocks(compute_log_ratios(base, one))


def test_the_order_of_processes_in_a_block_does_not_matter() -> None:
    variants = [
        (BASE, [[1.0, 1.1], [1.3, 1.2]]),
        (CHECKPOINT, [[2.0, 2.3], [2.2, 2.1]]),
        (ACCUMULATE, [[3.0, 3.3], [3.1, 3.2]]),
    ]
    ratios = []
    for in_order in (variants, variants[::-1]):
        records = blocks(in_order)
        base, change = select_case(records, BASE), select_case(records, CHECKPOINT)
        ratios.append(Blocks(records).compare(base, change))
    assert ratios[0] == pytest.approx(ratios[1])


def test_a_pair_has_one_direction_whatever_the_order_in_each_block() -> None:
    """Baselines of two frameworks are compared with the first of them in a block."""
    jax = Case("transformer", "jax", "train", "fp32", 4, "tiny")
    records = blocks([(BASE, [[1.0]]), (jax, [[2.0]])])
    for reversed_record in blocks([(jax, [[2.0]]), (BASE, [[1.0]])]):
        turns = reversed_record.turns_taken.model_copy(update={"block": "reversed"})
        records.append(reversed_record.model_copy(update={"turns": turns}))

    (logs,) = Blocks(records).pairs.values()

    assert logs[0] == pytest.approx(logs[1])


@pytest.mark.parametrize(
    "changes", [{"status": "crashed"}, {"turns": None, "step_s": []}], ids=["failed", "untimed"]
)
def test_a_failed_or_untimed_process_has_no_ratio(changes: dict[str, Any]) -> None:
    records = blocks([(BASE, [[1.0, 1.0]]), (CHECKPOINT, [[1.5, 1.5]])])
    base, change = records
    assert Blocks(records).compare([base], [change.model_copy(update=changes)]) is None
