"""Ratios over blocks: how often their interval contains the true ratio, and what has a ratio."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from framebench.analysis.blocks import Blocks, compute_log_ratios
from framebench.analysis.reports.verdicts import compare_instructions
from framebench.analysis.statistics import (
    FEWEST_BLOCKS,
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
    measure_spread,
    pool_spreads,
)
from framebench.records.record import Record
from framebench.suite.case import Case
from tests.fake_records import make_blocks, record

BASE = Case.from_id("transformer/torch/train/fp32/b4/tiny")
CHECKPOINT = replace(BASE, strategy="checkpoint")
ACCUMULATE = replace(BASE, strategy="accumulate")
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
        logs.append(log)
    return logs


def compare_page(logs: np.ndarray, effects: np.ndarray) -> list[Ratio]:
    """Return the ratios of one page: of every further variant, with its effect, to the first."""
    pairs = []
    for variant, effect in zip(logs[1:], effects):
        pairs.append(compare_variants(logs[0], variant + effect))
    ratios = []
    for pair in pairs:
        others = [other for other in pairs if other is not pair]
        ratios.append(compare_blocks(pair, pool_variances(others)))
    return ratios


def pool_variances(pairs: list[list[float]]) -> Pool:
    """Return how much the log ratios of these pairs differ from block to block."""
    return pool_spreads([measure_spread(logs) for logs in pairs])


def get_ends(ratio: Ratio) -> tuple[float, float]:
    """Return the ends of an interval, which must not be missing."""
    assert ratio.low is not None
    assert ratio.high is not None
    return ratio.low, ratio.high


def contains_truth(ratio: Ratio, truth: float) -> bool:
    """Return whether the interval contains the true ratio."""
    low, high = get_ends(ratio)
    return low <= truth <= high


@pytest.mark.parametrize(("blocks_each", "variants"), [(3, 2), (3, 6), (5, 6)])
def test_the_interval_contains_the_true_ratio_nineteen_times_in_twenty(blocks_each, variants):
    rng = np.random.default_rng(blocks_each * 10 + variants)
    pages = 600
    effects = np.linspace(-0.3, 0.3, variants - 1)

    covered = 0
    for logs in simulate_logs(rng, pages, variants, blocks_each):
        # all ratios of a page share a baseline and are not independent: only the first counts
        first = compare_page(logs, effects)[0]
        covered += contains_truth(first, math.exp(effects[0]))

    low, high = stats.binom.ppf([0.001, 0.999], pages, 0.95)
    assert low <= covered, f"{covered} of {pages} intervals contain the true ratio"
    # here all pairs have one variance, which the rule does not assume: intervals may be a little
    # wide, but not too wide to be of use
    assert covered <= max(high, 0.985 * pages), f"{covered} of {pages}: too wide to be of use"


MISSED = math.nan  # a round that a process did not take part in
logs_of_blocks = st.lists(st.floats(-1, 1), min_size=1, max_size=6)
pools = st.builds(Pool, st.floats(0, 1), st.integers(0, 9))


@settings(deadline=None)
@given(logs_of_blocks, pools)
def test_swapping_the_sides_inverts_ratio_and_interval_and_keeps_p(logs, pool):
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
@given(st.lists(st.floats(-1, 1), min_size=FEWEST_BLOCKS, max_size=6))
def test_without_other_pairs_the_interval_is_students(logs):
    ratio = compare_blocks(logs)
    error = stats.sem(logs)
    if error > 1e-9:
        ends = stats.t.interval(0.95, len(logs) - 1, np.mean(logs), error)
        assert get_ends(ratio) == pytest.approx(tuple(np.exp(ends)))
        assert ratio.p == pytest.approx(stats.ttest_1samp(logs, 0).pvalue, abs=1e-9)


@pytest.mark.parametrize(("pool_freedom", "prior"), [(10, 4), (1, 1)])
def test_the_variance_is_shrunk_to_that_of_other_pairs(pool_freedom, prior):
    """The other pairs weigh as their degrees of freedom, but never more than four."""
    logs, variance = [0.10, 0.11, 0.12], 0.0001
    others = Pool(variance=0.0004, freedom=pool_freedom)

    ratio = compare_blocks(logs, others)

    freedom = prior + 2
    error = math.sqrt((prior * others.variance + 2 * variance) / freedom / 3)
    half = stats.t.ppf(0.975, freedom) * error
    assert ratio.value == compare_blocks(logs).value
    assert math.log(get_ends(ratio)[1] / ratio.value) == pytest.approx(half)


def test_a_pair_that_is_noisier_than_others_keeps_its_own_variance():
    noisy = [0.1, -0.2, 0.3]
    calm = Pool(variance=0.0001, freedom=20)
    assert compare_blocks(noisy, calm) == compare_blocks(noisy)


def test_the_variance_of_a_pool_is_the_median_over_its_pairs():
    logs = np.random.default_rng(0).normal(0, 0.02, (2001, 3))
    assert pool_variances(logs.tolist()).variance == pytest.approx(0.0004, rel=0.06)
    logs[:400] *= 10  # a fifth are far noisier, which would make the mean 21 times as large
    assert pool_variances(logs.tolist()).variance == pytest.approx(0.0004, rel=0.5)


def test_intervals_of_calm_and_of_noisy_pairs_cover_the_true_ratio():
    """About 95 % of the intervals cover it if a fifth of the pairs are four times as noisy."""
    rng = np.random.default_rng(5)
    noise = np.full((20, 1), 0.02)  # standard deviation of each pair's log ratios
    noise[:4] = 0.08
    noisy_covered = []  # whether an interval has the true ratio, 1, in it
    calm_covered = []
    for _ in range(250):
        logs = rng.normal(0, noise, (20, 5))  # log ratios of 20 pairs in 5 blocks
        for pair, covered in ((0, noisy_covered), (1, noisy_covered), (10, calm_covered)):
            others = pool_variances(np.delete(logs, pair, axis=0).tolist())
            ratio = compare_blocks(logs[pair].tolist(), others)
            covered.append(contains_truth(ratio, 1))
    assert np.mean(noisy_covered) > 0.91
    assert 0.935 < np.mean(calm_covered) < 0.995


@pytest.mark.parametrize(
    ("values", "corrected"),
    [
        # sorted, they are multiplied by 4, 3, 2 and 1; none falls below the one before it
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.9, 0.8], [1.0, 1.0]),  # no p is above 1
        ([], []),
    ],
)
def test_p_values_are_corrected_by_holms_method(values, corrected):
    assert correct_by_holm(values) == pytest.approx(corrected)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (Ratio(1.10, low=1.05, high=1.15, p=0.001), "slower"),
        (Ratio(0.90, low=0.88, high=0.93, p=0.001), "faster"),
        (Ratio(1.00, low=0.98, high=1.02, p=0.9), NONE),
        (Ratio(1.02, low=1.01, high=1.029, p=0.001), NONE),  # significant, but too small to matter
        (Ratio(1.02, low=1.005, high=1.04, p=0.03), UNDECIDED),
        (Ratio(1.10, low=0.95, high=1.25, p=0.2), UNDECIDED),
        (Ratio(1.10), UNDECIDED),
    ],
)
def test_the_interval_decides_the_verdict_on_times(ratio, verdict):
    assert decide(ratio, TIME) == verdict


@pytest.mark.parametrize(
    ("base", "change", "instrument", "verdict"),
    [
        ([100, 100], [102, 102], "allocator.in_use", "more memory"),
        ([2**28], [2**28], "host.rss", NONE),
        ([2**28], [2**28 * 1.02], "host.rss", "more memory"),
        ([2**28 * 1.02], [2**28], "host.rss", "less memory"),
        ([300 * 2**10], [316 * 2**10], "host.rss", UNDECIDED),  # four pages of a few dozen
    ],
)
def test_verdicts_on_peaks_allow_for_the_instruments_resolution(base, change, instrument, verdict):
    assert decide(compare_peaks(base, change, instrument), PEAK) == verdict


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ([1_000_100], "same work"),
        ([1_000_000, 1_000_100, 2_000_000], "same work"),  # the median counts
        ([1_010_000], "other work"),
        ([990_000], "other work"),
    ],
)
def test_equal_work_has_equal_instructions(counts, verdict):
    base = record(instructions=[1_000_000])
    candidate = record(instructions=counts)
    assert compare_instructions([base], [candidate]).verdict == verdict


def select_case(records: list[Record], case: Case) -> list[Record]:
    """Return the records of one case."""
    return [record for record in records if record.parsed == case]


def compare_times(base: list[list[float]], change: list[list[float]]) -> list[float]:
    """Return the log ratio of each block, from step times by block and round."""
    records = make_blocks([(BASE, base), (CHECKPOINT, change)])
    return compute_log_ratios(select_case(records, BASE), select_case(records, CHECKPOINT))


def test_records_are_paired_by_block_and_round():
    """Each side missed a round: paired by their order, the times would have other ratios."""
    base = [[1.0, 2.0, 4.0, 8.0], [MISSED, 1.0, 2.0, 4.0]]
    change = [[MISSED, 4.0, 8.0, 16.0], [9.0, 3.0, 6.0, 12.0]]
    assert compare_times(base, change) == pytest.approx([math.log(2), math.log(3)])


def test_a_variance_is_shrunk_to_that_of_the_other_pairs_with_a_baseline():
    """The compared pair is left out of the pool. A ratio of two strategies is no pair of the pool,
    so nothing is left out for it.
    """
    rng = np.random.default_rng(0)
    variants = []
    for case in (BASE, CHECKPOINT, ACCUMULATE):
        times = np.exp(rng.normal(0, 0.02, (3, 4)))  # three blocks of four rounds
        variants.append((case, times.tolist()))
    records = make_blocks(variants)
    base = select_case(records, BASE)
    checkpoint = select_case(records, CHECKPOINT)
    accumulate = select_case(records, ACCUMULATE)

    by_blocks = Blocks(records)

    of_checkpoint = compute_log_ratios(base, checkpoint)
    of_accumulate = compute_log_ratios(base, accumulate)
    of_two_strategies = compute_log_ratios(checkpoint, accumulate)
    without_itself = pool_variances([of_accumulate])
    of_both_pairs = pool_variances([of_checkpoint, of_accumulate])
    assert by_blocks.compare(base, checkpoint) == compare_blocks(of_checkpoint, without_itself)
    assert by_blocks.compare(checkpoint, accumulate) == compare_blocks(
        of_two_strategies, of_both_pairs
    )


def test_baselines_have_one_ratio_whatever_their_order_in_each_block():
    """JAX's steps take twice as long, in a block that begins with PyTorch and in one that begins
    with JAX.
    """
    torch = (BASE, [[1.0]])
    jax = (Case.from_id("transformer/jax/train/fp32/b4/tiny"), [[2.0]])
    records = make_blocks([torch, jax]) + make_blocks([jax, torch], name="reversed")
    (logs_of_both_blocks,) = Blocks(records).pairs.values()
    # pairs are sorted, so that PyTorch's time is over JAX's
    assert logs_of_both_blocks == pytest.approx([math.log(0.5)] * 2)


@pytest.mark.parametrize("without_times", [{"status": "crashed"}, {"turns": None, "step_s": []}])
def test_records_without_times_have_no_ratio(without_times):
    records = make_blocks([(BASE, [[1.0]]), (CHECKPOINT, [[1.5]])])
    (timed,) = select_case(records, CHECKPOINT)
    untimed = timed.model_copy(update=without_times)
    assert Blocks(records).compare(select_case(records, BASE), [untimed]) is None
