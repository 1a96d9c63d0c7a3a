"""The rule of the claims' verdicts: from an effect with its interval, and a target, to a word."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framebench.claims.rows import EXPECTED
from framebench.claims.rule import (
    DECIDED,
    FAILED,
    Effect,
    Target,
    decide,
    find_sign,
    list_open_verdicts,
    summarize,
)

number = st.floats(-10, 10, allow_nan=False)
INTERVALS = st.tuples(number, number, number).map(sorted)
DIRECTIONS = st.sampled_from([-1, 1])
TARGETS = st.builds(
    Target, DIRECTIONS, null=st.floats(-2, 2), minimum=st.floats(0, 0.5), value=st.none()
) | st.builds(
    lambda direction, null, minimum, gain, more: Target(
        direction, null, minimum, null + direction * gain, more
    ),
    DIRECTIONS,
    st.floats(-2, 2),
    st.floats(0, 0.1),
    st.floats(0.2, 5),
    st.booleans(),
)
LESS = Target(-1, 1.0, 0.01)
FORTY_LESS = Target(-1, 1.0, 0.01, 0.6)
SEVENTY_OR_MORE = Target(-1, 1.0, 0.01, 0.3, or_more=True)
OURS = Target(-1, 1.0, 0.01, 0.5, ours=True)


@given(INTERVALS, TARGETS, st.floats(0, 5))
def test_a_larger_gain_never_gets_a_lesser_verdict(ends, target, more):
    low, value, high = ends
    shift = target.direction * more
    smaller = decide(Effect(value, low, high), target)
    larger = decide(Effect(value + shift, low + shift, high + shift), target)
    if smaller in DECIDED and larger in DECIDED:
        assert DECIDED.index(larger) >= DECIDED.index(smaller)


@given(st.floats(0, 5), st.floats(0, 5), TARGETS)
def test_an_interval_that_contains_no_effect_never_confirms(below, above, target):
    effect = Effect(target.null, target.null - below, target.null + above)
    assert decide(effect, target) in ("no effect", "smaller or none", "undecided")


@given(INTERVALS, TARGETS)
def test_a_narrower_interval_never_overturns_a_verdict(ends, target):
    """Only an effect too small for its claim may turn out to be none, or the opposite."""
    low, value, high = ends
    wide = decide(Effect(value, low, high), target)
    alone = decide(Effect(value, value, value), target)
    if wide == "smaller or none":
        assert alone in FAILED
    elif wide == "no effect":
        assert alone in ("no effect", "opposite")
    else:
        assert wide in ("undecided", alone)


@given(number, TARGETS)
def test_without_an_interval_nothing_is_decided(value, target):
    assert decide(Effect(value, -math.inf, math.inf), target) == "undecided"


@pytest.mark.parametrize(
    ("target", "effect", "verdict"),
    [
        (FORTY_LESS, (0.6, 0.59, 0.61), "confirmed"),
        (FORTY_LESS, (0.67, 0.66, 0.679), "confirmed"),  # a fifth less than 40 %
        (FORTY_LESS, (0.68, 0.67, 0.69), "undecided"),  # across the limit
        (FORTY_LESS, (0.7, 0.69, 0.71), "smaller than claimed"),
        (FORTY_LESS, (0.97, 0.9, 1.02), "smaller or none"),
        (FORTY_LESS, (0.8, 0.5, 1.1), "undecided"),
        (FORTY_LESS, (0.5, 0.49, 0.51), "larger than claimed"),
        (FORTY_LESS, (1.0, 0.995, 1.005), "no effect"),
        (FORTY_LESS, (1.2, 1.1, 1.3), "opposite"),
        (LESS, (0.98, 0.97, 0.985), "confirmed"),
        (LESS, (0.98, 0.97, 0.995), "undecided"),
        (LESS, (1.02, 1.005, 1.03), "no effect"),
        (LESS, (1.02, 1.011, 1.03), "opposite"),
        (SEVENTY_OR_MORE, (0.1, 0.1, 0.1), "confirmed"),
        (SEVENTY_OR_MORE, (0.31, 0.31, 0.31), "smaller than claimed"),
        (OURS, (0.9, 0.9, 0.9), "confirmed"),
        (EXPECTED["some"], (0, 0, 0), "no effect"),
        (EXPECTED["some"], (1, 1, 1), "confirmed"),
        (EXPECTED["none"], (0, 0, 0), "confirmed"),
        (EXPECTED["none"], (1, 1, 1), "opposite"),
    ],
)
def test_verdicts_on_effects(target, effect, verdict):
    assert decide(Effect(*effect), target) == verdict


@pytest.mark.parametrize("effect", [(1, 2, 1), (math.nan, 0, 1)])
def test_an_invalid_interval_is_refused(effect):
    with pytest.raises(ValueError, match="no interval"):
        decide(Effect(*effect), Target(1))


@pytest.mark.parametrize(
    ("effect", "target", "verdicts"),
    [
        ((0.55, 0.5, 0.66), FORTY_LESS, ["confirmed", "larger than claimed"]),
        ((0.9, 0.5, 1.2), FORTY_LESS, [*FAILED[:2], *DECIDED[3:]]),
        ((0.9, 0.8, 1.005), LESS, ["no effect", "confirmed"]),
        ((0.9, -math.inf, math.inf), FORTY_LESS, []),
    ],
)
def test_an_interval_leaves_open_the_verdicts_on_its_numbers(effect, target, verdicts):
    assert list(list_open_verdicts(Effect(*effect), target)) == verdicts


@pytest.mark.parametrize("target", [Target(-1, 1.0, 0.01), Target(1, 1.0, 0.01)])
@pytest.mark.parametrize(
    ("effect", "sign"),
    [
        ((0.9, 0.8, 0.98), "less"),
        ((1.1, 1.02, 1.2), "more"),
        ((1.0, 0.995, 1.005), "none"),
        ((1.0, 0.9, 1.1), "unclear"),
    ],
)
def test_a_sign_is_that_of_the_whole_interval_whatever_is_claimed(effect, sign, target):
    assert find_sign(Effect(*effect), target) == sign


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (["confirmed", "confirmed", "not measured"], "confirmed"),
        (["confirmed", "not measured"], "undecided"),
        (["undecided", "confirmed"], "undecided"),
        (["undecided", "not measured"], "undecided"),
        (["smaller than claimed", "confirmed"], "mixed"),
        (["opposite", "no effect", "undecided"], "no effect or opposite"),
        (["opposite", "confirmed", "undecided", "undecided", "undecided"], "mixed"),
        (["larger than claimed", "not testable here"], "larger than claimed"),
        (["not testable here"], "not testable here"),
        (["not testable here", "not measured"], "not measured"),
        (["smaller or none", "smaller than claimed"], "smaller or none"),
        (["smaller or none", "opposite", "no effect"], "no effect or opposite"),
        (["smaller or none", "confirmed"], "mixed"),
        (["listing does not run", "listing does not run"], "listing does not run"),
        (["listing does not run", "not measured"], "not measured"),
        ([], "not measured"),
    ],
)
def test_the_verdict_on_several_comparisons(verdicts, verdict):
    assert summarize(verdicts) == verdict


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (["confirmed", "no effect", "opposite"], "confirmed"),
        (["larger than claimed", "undecided", "undecided"], "confirmed"),
        (["no effect", "opposite"], "no effect or opposite"),
        (["smaller than claimed", "not measured"], "undecided"),
    ],
)
def test_one_comparison_confirms_that_something_may_be(verdicts, verdict):
    assert summarize(verdicts, may=True) == verdict
