"""The rule of the claims' verdicts: from an effect with its interval, and a target, to a word."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.claims.rule import MEASURED, TOLERANCE, Effect, Target, Verdict, decide, summary

number = st.floats(-10, 10, allow_nan=False)
TARGETS = st.builds(
    Target, st.sampled_from([-1, 1]), null=st.floats(-2, 2), minimum=st.floats(0, 0.5), value=st.none()
) | st.builds(
    lambda direction, null, minimum, gain: Target(direction, null, minimum, null + direction * gain),
    st.sampled_from([-1, 1]), st.floats(-2, 2), st.floats(0, 0.1), st.floats(0.2, 5),
)  # fmt: skip


@given(st.tuples(number, number, number).map(sorted), TARGETS, st.floats(0, 5))
def test_a_larger_gain_never_gets_a_lesser_verdict(ends: list[float], target: Target, more: float) -> None:
    low, value, high = ends
    shift = target.direction * more
    smaller = decide(Effect(value, low, high), target)
    larger = decide(Effect(value + shift, low + shift, high + shift), target)
    assert MEASURED.index(larger) >= MEASURED.index(smaller)


@given(st.floats(0, 5), st.floats(0, 5), TARGETS)
def test_an_interval_with_no_effect_in_it_is_never_reproduced(below: float, above: float, target: Target) -> None:
    null = target.null
    assert decide(Effect(null, null - below, null + above), target) in ("contradicted", "weaker")


@given(st.tuples(number, number, number).map(sorted), TARGETS)
def test_a_narrower_interval_never_turns_an_effect_into_none(ends: list[float], target: Target) -> None:
    low, value, high = ends
    seen = decide(Effect(value, low, high), target) in ("reproduced", "stronger")
    assert not seen or decide(Effect(value, value, value), target) != "contradicted"


@pytest.mark.parametrize(
    ("effect", "verdict"),
    [
        ((0.6, 0.59, 0.61), "reproduced"),
        ((0.67, 0.66, 0.68), "reproduced"),  # a fifth less than 40 %
        ((0.7, 0.69, 0.71), "weaker"),
        ((0.97, 0.9, 1.02), "weaker"),
        ((0.5, 0.49, 0.51), "stronger"),
        ((1.0, 0.995, 1.005), "contradicted"),
        ((1.2, 1.1, 1.3), "contradicted"),
    ],
)
def test_verdicts_on_forty_per_cent_less(effect: tuple[float, float, float], verdict: Verdict) -> None:
    assert decide(Effect(*effect), Target(-1, 1.0, 0.01, 0.6)) == verdict


def test_what_is_no_interval_has_no_verdict() -> None:
    with pytest.raises(ValueError, match="no interval"):
        decide(Effect(1, 2, 1), Target(1))


@pytest.mark.parametrize(
    ("arms", "verdict"),
    [
        (["reproduced", "reproduced", "not measured"], "reproduced"),
        (["stronger", "reproduced"], "reproduced"),
        (["contradicted", "contradicted"], "contradicted"),
        (["contradicted", "reproduced"], "weaker"),
        (["stronger", "needs a GPU (not measured here)"], "stronger"),
        (["needs a GPU (not measured here)"], "needs a GPU (not measured here)"),
        (["needs a GPU (not measured here)", "not measured"], "not measured"),
        ([], "not measured"),
    ],
)
def test_the_verdict_on_several_arms(arms: list[Verdict], verdict: Verdict) -> None:
    assert summary(arms) == verdict


def test_a_tolerance_is_a_part_of_the_claim() -> None:
    assert 0 < TOLERANCE < 1
    assert math.isclose(Target(-1, 1.0, 0.01, 0.6).claimed or 0, 0.4)
