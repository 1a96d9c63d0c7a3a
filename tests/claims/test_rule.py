"""The rule of the claims' verdicts: from an effect with its interval, and a target, to a word."""

import math
from dataclasses import replace

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
WITHOUT_SIZE = st.builds(Target, DIRECTIONS, null=st.floats(-2, 2), minimum=st.floats(0, 0.5))


@st.composite
def draw_sized(draw: st.DrawFn) -> Target:
    """Draw a target with a size, which is larger than the least gain that matters."""
    direction, null = draw(DIRECTIONS), draw(st.floats(-2, 2))
    return Target(
        direction=direction,
        null=null,
        minimum=draw(st.floats(0, 0.1)),
        value=null + direction * draw(st.floats(0.2, 5)),
        or_more=draw(st.booleans()),
    )


TARGETS = WITHOUT_SIZE | draw_sized()
# claims about the ratio of two peaks, of which a change by less than 1 % is none
LESS = Target(direction=-1, null=1.0, minimum=0.01)
FORTY_LESS = replace(LESS, value=0.6)
SEVENTY_OR_MORE = replace(LESS, value=0.3, or_more=True)
OURS = replace(LESS, value=0.5, ours=True)


@given(INTERVALS, TARGETS, st.floats(0, 5))
def test_a_larger_gain_never_gets_a_lesser_verdict(ends, target, more):
    low, value, high = ends
    shift = target.direction * more
    smaller = decide(Effect(value=value, low=low, high=high), target)
    shifted = Effect(value=value + shift, low=low + shift, high=high + shift)
    larger = decide(shifted, target)
    if smaller in DECIDED and larger in DECIDED:
        assert DECIDED.index(larger) >= DECIDED.index(smaller)


@given(st.floats(0, 5), st.floats(0, 5), TARGETS)
def test_an_interval_that_contains_no_effect_never_confirms(below, above, target):
    effect = Effect(value=target.null, low=target.null - below, high=target.null + above)
    assert decide(effect, target) in ("no effect", "smaller or none", "undecided")


@given(INTERVALS, TARGETS)
def test_a_narrower_interval_never_overturns_a_verdict(ends, target):
    """Only an effect too small for its claim may turn out to be none, or the opposite."""
    low, value, high = ends
    wide = decide(Effect(value=value, low=low, high=high), target)
    alone = decide(Effect.exact(value), target)
    if wide == "smaller or none":
        assert alone in FAILED
    elif wide == "no effect":
        assert alone in ("no effect", "opposite")
    else:
        assert wide in ("undecided", alone)


@given(number, TARGETS)
def test_without_an_interval_nothing_is_decided(value, target):
    assert decide(Effect(value=value, low=-math.inf, high=math.inf), target) == "undecided"


@pytest.mark.parametrize(
    ("target", "low", "value", "high", "verdict"),
    [
        (FORTY_LESS, 0.59, 0.6, 0.61, "confirmed"),
        (FORTY_LESS, 0.66, 0.67, 0.679, "confirmed"),  # four fifths of 40 % are enough
        (FORTY_LESS, 0.67, 0.68, 0.69, "undecided"),  # across that limit
        (FORTY_LESS, 0.69, 0.7, 0.71, "smaller than claimed"),
        (FORTY_LESS, 0.9, 0.97, 1.02, "smaller or none"),
        (FORTY_LESS, 0.5, 0.8, 1.1, "undecided"),
        (FORTY_LESS, 0.49, 0.5, 0.51, "larger than claimed"),
        (FORTY_LESS, 0.995, 1.0, 1.005, "no effect"),
        (FORTY_LESS, 1.1, 1.2, 1.3, "opposite"),
        (LESS, 0.97, 0.98, 0.985, "confirmed"),
        (LESS, 0.97, 0.98, 0.995, "undecided"),
        (LESS, 1.005, 1.02, 1.03, "no effect"),
        (LESS, 1.011, 1.02, 1.03, "opposite"),
    ],
)
def test_an_interval_has_a_verdict(target, low, value, high, verdict):
    assert decide(Effect(value=value, low=low, high=high), target) == verdict


@pytest.mark.parametrize(
    ("target", "value", "verdict"),
    [
        (SEVENTY_OR_MORE, 0.1, "confirmed"),
        (SEVENTY_OR_MORE, 0.31, "smaller than claimed"),
        (OURS, 0.9, "confirmed"),
        (EXPECTED["some"], 0, "no effect"),
        (EXPECTED["some"], 1, "confirmed"),
        (EXPECTED["none"], 0, "confirmed"),
        (EXPECTED["none"], 1, "opposite"),
    ],
)
def test_an_exact_number_has_a_verdict(target, value, verdict):
    assert decide(Effect.exact(value), target) == verdict


@pytest.mark.parametrize(("low", "value", "high"), [(2, 1, 1), (0, math.nan, 1)])
def test_an_invalid_interval_is_refused(low, value, high):
    with pytest.raises(ValueError, match="no interval"):
        decide(Effect(value=value, low=low, high=high), LESS)


@pytest.mark.parametrize(
    ("target", "low", "value", "high", "verdicts"),
    [
        (FORTY_LESS, 0.5, 0.55, 0.66, ["confirmed", "larger than claimed"]),
        (FORTY_LESS, 0.5, 0.9, 1.2, [*FAILED[:2], *DECIDED[3:]]),
        (LESS, 0.8, 0.9, 1.005, ["no effect", "confirmed"]),
        (FORTY_LESS, -math.inf, 0.9, math.inf, []),
    ],
)
def test_an_interval_leaves_open_the_verdicts_on_its_numbers(target, low, value, high, verdicts):
    effect = Effect(value=value, low=low, high=high)
    assert list(list_open_verdicts(effect, target)) == verdicts


@pytest.mark.parametrize("direction", [-1, 1])
@pytest.mark.parametrize(
    ("low", "value", "high", "sign"),
    [
        (0.8, 0.9, 0.98, "less"),
        (1.02, 1.1, 1.2, "more"),
        (0.995, 1.0, 1.005, "none"),
        (0.9, 1.0, 1.1, "unclear"),
    ],
)
def test_a_sign_is_that_of_the_whole_interval_whatever_is_claimed(
    low, value, high, sign, direction
):
    target = replace(LESS, direction=direction)
    assert find_sign(Effect(value=value, low=low, high=high), target) == sign


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
def test_a_claim_of_what_may_happen_needs_one_comparison_that_shows_it(verdicts, verdict):
    assert summarize(verdicts, may=True) == verdict
