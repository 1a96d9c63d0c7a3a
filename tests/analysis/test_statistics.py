"""Verdicts: what must always hold, agreement with scipy, how often they err, and a comparison as a user starts it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.reports import verdicts
from analysis.statistics import CPU_TIME, PEAK, TIME, Quantity, chance, interval, judge, peaks, spread, times
from analysis.studies import study
from framebench.records.provenance import ROOT
from framebench.records.record import Record
from framebench.records.rounds import ROUNDS, Round, rounds_as_json
from framebench.suite.case import Case
from tests.handmade import provenance, record

CASE = Case("transformer", "torch", "train", "fp32", 4, "tiny")
INVERSE = {"slower": "faster", "faster": "slower", "no difference": "no difference", "undecided": "undecided"}
positive = st.floats(1e-6, 1e6)
arms = st.integers(2, 12).flatmap(lambda n: st.tuples(*(st.lists(positive, min_size=n, max_size=n),) * 2))


@settings(deadline=None, max_examples=50)
@given(arms, st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(pair: tuple[list[float], list[float]], factor: float) -> None:
    one, other = judge(*pair, TIME), judge(*([x * factor for x in arm] for arm in pair), TIME)
    assert other[4:7] == pytest.approx(one[4:7])


@settings(deadline=None, max_examples=50)
@given(arms)
def test_swapped_arms_invert_everything(pair: tuple[list[float], list[float]]) -> None:
    one, other = judge(pair[0], pair[1], TIME), judge(pair[1], pair[0], TIME)
    assert (other.ratio, other.low, other.high) == pytest.approx((1 / one.ratio, 1 / one.high, 1 / one.low))
    assert other.p == pytest.approx(one.p)
    assert other.verdict == INVERSE[one.verdict]


@settings(deadline=None, max_examples=50)
@given(arms)
def test_every_number_is_one(pair: tuple[list[float], list[float]]) -> None:
    v = judge(*pair, TIME)
    assert all(math.isfinite(x) for x in v if isinstance(x, float))
    assert 0 < v.low <= v.ratio * (1 + 1e-12)
    assert v.ratio <= v.high * (1 + 1e-12)
    assert 2 / 2**v.rounds <= v.p * (1 + 1e-12)
    assert v.p <= 1


@settings(deadline=None, max_examples=20)
@given(arms)
def test_identical_arms_do_not_differ(pair: tuple[list[float], list[float]]) -> None:
    for v in (judge(pair[0], pair[0], TIME), times([pair[0]] * 3, [pair[0]] * 3), peaks(pair[1], pair[1])):
        assert (v.ratio, v.low, v.high, v.p, v.verdict) == (1, 1, 1, 1, "no difference")


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.10, 1.11, 1.09, 1.12, 1.10, 1.08], "slower"),
        ([0.90, 0.91, 0.89, 0.92, 0.90, 0.93], "faster"),
        ([1.02, 1.02, 1.02, 1.02, 1.02, 1.02], "no difference"),  # a difference, yet none that matters
        ([1.02, 1.10, 1.01, 1.12, 1.10, 1.01], "undecided"),
        ([1.10, 1.11, 1.09, 1.12, 1.10], "undecided"),  # too few to rule out chance
        ([1.10, 1.11, 0.60, 1.12, 1.10, 1.09] * 2, "undecided"),
        ([1.10, 1.11, 1.09, 1.12, 1.10, 1.09] + [1.11, 0.40, 1.13, 1.08, 9.90, 1.10], "slower"),  # one wild round is outvoted
    ],
)
def test_verdicts(ratios: list[float], verdict: str) -> None:
    drift = ([1.0, 5.0, 2.0, 8.0, 1.0, 3.0] * 2)[: len(ratios)]  # of the machine, between rounds
    assert judge(drift, [r * d for r, d in zip(ratios, drift)], TIME).verdict == verdict


@pytest.mark.parametrize(("ratio", "verdict"), [(1.02, "more memory"), (0.98, "less memory"), (1.005, "no difference")])
def test_peaks_have_words_and_a_limit_of_their_own(ratio: float, verdict: str) -> None:
    base = [2**28, 2**28 + 4096] * 3
    assert peaks(base, [2**28 * ratio] * 6).verdict == verdict


@pytest.mark.parametrize("pair", [([1.0], [1.0]), ([1.0, 1.0], [1.0]), ([1.0, 0.0], [1.0, 1.0]), ([1.0, math.nan], [1.0, 1.0])])
def test_what_cannot_be_compared_is_refused(pair: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match=r"rounds|positive"):
        judge(*pair, TIME)


def test_the_interval_is_scipys_and_covers_what_it_says() -> None:
    drawn = np.random.default_rng(1).normal(0.05, 0.04, (400, 10))
    low, high = interval(drawn)
    one = interval(drawn[0])
    assert (low[0], high[0]) == pytest.approx(one, abs=0.02)
    assert 0.90 <= ((low <= 0.05) & (high >= 0.05)).mean() <= 0.99


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-1, 1).filter(lambda x: abs(x) > 1e-6), min_size=2, max_size=13, unique_by=abs))
def test_the_rank_test_is_scipys(logs: list[float]) -> None:
    assert chance(np.array(logs)) == pytest.approx(stats.wilcoxon(logs, method="exact").pvalue)


def test_the_rank_test_takes_ties_and_many_rounds() -> None:
    tied = np.array([0, 0, 0.1, 0.1, 0.1, -0.1, 0.2, 0.2])
    flips = stats.permutation_test(
        (np.sign(tied) * stats.rankdata(np.abs(tied)), np.zeros(8)), lambda x, y: np.sum(x - y), permutation_type="samples"
    )
    assert chance(tied) == pytest.approx(flips.pvalue)
    many = np.random.default_rng(0).normal(0.5, 1, 20)
    assert chance(many) == pytest.approx(stats.wilcoxon(many).pvalue, abs=0.01)


@pytest.fixture(scope="module")
def rates() -> dict[str, dict[str, float]]:
    """Of the study: the quiet machine at the default number of rounds, 200 comparisons."""
    found = study.rates(study.quiet(), [ROUNDS], comparisons=200)
    return found.set_index("quantity").to_dict("index")  # type: ignore[return-value]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 10, 20])
def test_the_spread_of_one_process_is_the_interval_of_its_median(size: int) -> None:
    """Against SciPy's own bootstrap, over many processes: as wide, and ends in the same places."""
    samples = np.random.default_rng(size).lognormal(0, 0.05, (100, size))
    ours = np.array([spread(process.tolist()) for process in samples])
    if size == 1:
        assert (ours == samples).all(), "one sample is all there is"
        return
    theirs = np.transpose(interval(samples))
    strayed = np.abs(ours - theirs).mean() / np.ptp(theirs, axis=1).mean()
    assert strayed < 0.1, f"{size} samples: ends lie {strayed:.0%} of the width apart"


def test_the_spread_mirrors_and_needs_a_sample() -> None:
    low, high = spread([3.0, 1.0, 2.0, 5.0, 8.0, 13.0])
    assert spread([-x for x in (3.0, 1.0, 2.0, 5.0, 8.0, 13.0)]) == (-high, -low)
    with pytest.raises(ValueError, match="no samples"):
        spread([])


@pytest.mark.parametrize("quantity", [TIME, PEAK])
def test_errors_are_rare(quantity: Quantity, rates: dict[str, dict[str, float]]) -> None:
    assert rates[quantity.name]["false alarm"] <= 0.05
    assert rates[quantity.name]["detected"] >= 0.90


def test_a_loaded_machine_raises_no_false_alarms() -> None:
    """Not even where the noise is ten times the smallest difference that matters, and rounds are few."""
    assert study.rates(study.loaded(), [7, ROUNDS], comparisons=200)["false alarm"].max() <= 0.06  # of 200: 0.05 and luck


@pytest.mark.slow
def test_the_published_study_is_the_codes_own() -> None:
    text = (ROOT / "docs/study.md").read_text()
    assert study.document(text, study.study()) == text


def made(step: float, cpu: float, peak: int = 2**20, instrument: str = "host.rss") -> Record:
    return record(CASE, step_s=[step] * 3, cpu_s_per_step=cpu, peaks={instrument: peak}, provenance=provenance(threads=1))


def said(*arms: Record) -> dict[str, object]:
    return rounds_as_json([Round(*arms)] * 6)


def test_cautions() -> None:
    assert list(verdicts.cautions(said(made(1, 1), made(2, 2)))) == []
    (contended, disagree) = verdicts.cautions(said(made(1, 1), made(2, 1)))
    assert "change: a step took 2.00 times its CPU time" in contended
    assert disagree == "step time (slower) and CPU time (no difference) do not agree"
    mixed = said(made(1, 1), made(1, 1, instrument="allocator.in_use"))
    assert ["different instruments" in text for text in verdicts.cautions(mixed)] == [True]
    assert "peak memory" not in {v.quantity for v in verdicts.of(mixed)}
    waiting = made(2, 1).model_copy(update={"shares": {"wait": 0.5}})
    assert list(verdicts.cautions(said(waiting, waiting))) == []


def test_the_table_shows_cpu_time_beside_wall_time() -> None:
    shown = verdicts.table(said(made(0.001, 0.001), made(0.002, 0.001, 2**21)))
    found = {line[0]: line for line in shown.rows}
    assert found[TIME.name][1:4] == ("1.00 ms", "2.00 ms", "2.000")
    assert found[CPU_TIME.name][-1] == "no difference"
    assert found[PEAK.name][1:3] == ("1.00 MiB", "2.00 MiB")
    assert found[PEAK.name][-1] == "more memory"
