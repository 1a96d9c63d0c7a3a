"""The rule of the claims' verdicts: from an effect with its interval, and a target, to a word."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framebench.claims.rows import EXPECTED
from framebench.claims.rule import (
    DECIDED,
    FAILED,
    Effect,
    Sign,
    Target,
    Verdict,
    decide,
    describe_disagreement,
    find_sign,
    list_open_verdicts,
    summarize,
    summarize_possible,
)

number = st.floats(-10, 10, allow_nan=False)
INTERVALS = st.tuples(number, number, number).map(sorted)
TARGETS = st.builds(
    Target,
    st.sampled_from([-1, 1]),
    null=st.floats(-2, 2),
    minimum=st.floats(0, 0.5),
    value=st.none(),
) | st.builds(
    lambda direction, null, minimum, gain, more: Target(
        direction, null, minimum, null + direction * gain, more
    ),
    st.sampled_from([-1, 1]),
    st.floats(-2, 2),
    st.floats(0, 0.1),
    st.floats(0.2, 5),
    st.booleans(),
)
FORTY_LESS = Target(-1, 1.0, 0.01, 0.6)


@given(INTERVALS, TARGETS, st.floats(0, 5))
def test_a_larger_gain_never_gets_a_lesser_verdict(
    ends: list[float], target: Target, more: float
) -> None:
    low, value, high = ends
    shift = target.direction * more
    found = [
        decide(Effect(value, low, high), target),
        decide(Effect(value + shift, low + shift, high + shift), target),
    ]
    smaller, larger = [DECIDED.index(v) if v in DECIDED else None for v in found]
    assert smaller is None or larger is None or larger >= smaller


@given(st.floats(0, 5), st.floats(0, 5), TARGETS)
def test_an_interval_with_no_effect_in_it_is_never_reproduced(
    below: float, above: float, target: Target
) -> None:
    null = target.null
    assert decide(Effect(null, null - below, null + above), target) in (
        "no effect",
        "smaller or none",
        "undecided",
    )


@given(INTERVALS, TARGETS)
def test_a_narrower_interval_never_overturns_a_verdict(ends: list[float], target: Target) -> None:
    """What a wide interval has decided, the value in it says alone; only an effect too small for
    its claim may be none, or the opposite.
    """
    low, value, high = ends
    wide, alone = (
        decide(Effect(value, low, high), target),
        decide(Effect(value, value, value), target),
    )
    if wide == "smaller or none":
        assert alone in FAILED
    else:
        is_none = (wide, alone) == ("no effect", "opposite")
        assert wide in ("undecided", alone) or is_none


@given(number, TARGETS)
def test_without_an_interval_nothing_is_decided(value: float, target: Target) -> None:
    assert decide(Effect(value, -math.inf, math.inf), target) == "undecided"


@pytest.mark.parametrize(
    ("effect", "verdict"),
    [
        ((0.6, 0.59, 0.61), "confirmed"),
        ((0.67, 0.66, 0.679), "confirmed"),  # a fifth less than 40 %
        ((0.68, 0.67, 0.69), "undecided"),  # across the limit
        ((0.7, 0.69, 0.71), "smaller than claimed"),
        # weaker is smaller in the same direction: here is perhaps none, or the opposite
        ((0.97, 0.9, 1.02), "smaller or none"),
        ((0.8, 0.5, 1.1), "undecided"),
        ((0.5, 0.49, 0.51), "larger than claimed"),
        ((1.0, 0.995, 1.005), "no effect"),
        ((1.0, 0.98, 1.005), "smaller or none"),
        ((1.005, 0.995, 1.2), "no effect"),
        ((1.2, 1.1, 1.3), "opposite"),
    ],
)
def test_verdicts_on_forty_per_cent_less(
    effect: tuple[float, float, float], verdict: Verdict
) -> None:
    assert decide(Effect(*effect), FORTY_LESS) == verdict


@pytest.mark.parametrize(
    ("effect", "verdict"),
    [
        ((0.98, 0.97, 0.985), "confirmed"),
        ((0.98, 0.97, 0.995), "undecided"),
        ((0.5, 0.2, 1.5), "undecided"),
        ((0.995, 0.991, 0.999), "no effect"),
        ((1.02, 1.005, 1.03), "no effect"),
        ((1.02, 1.011, 1.03), "opposite"),
    ],
)
def test_verdicts_on_a_direction(effect: tuple[float, float, float], verdict: Verdict) -> None:
    assert decide(Effect(*effect), Target(-1, 1.0, 0.01)) == verdict


def test_a_claim_of_a_least_size_cannot_be_exceeded() -> None:
    seventy = Target(-1, 1.0, 0.01, 0.3)
    assert decide(Effect(0.1, 0.1, 0.1), seventy) == "larger than claimed"
    assert decide(Effect(0.1, 0.1, 0.1), Target(-1, 1.0, 0.01, 0.3, or_more=True)) == "confirmed"


@pytest.mark.parametrize(
    ("expected", "count", "verdict"),
    [
        ("some", 0, "no effect"),
        ("some", 1, "confirmed"),
        ("some", 9, "confirmed"),
        ("none", 0, "confirmed"),
        ("none", 1, "opposite"),
    ],
)
def test_a_count_is_some_or_none(expected: str, count: float, verdict: Verdict) -> None:
    assert decide(Effect(count, count, count), EXPECTED[expected]) == verdict


@pytest.mark.parametrize("effect", [(1, 2, 1), (3, 1, 2), (math.nan, 0, 1)])
def test_what_is_no_interval_has_no_verdict(effect: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="no interval"):
        decide(Effect(*effect), Target(1))


@given(INTERVALS, TARGETS)
def test_weaker_is_smaller_in_the_same_direction_and_nothing_else(
    ends: list[float], target: Target
) -> None:
    low, value, high = ends
    if decide(Effect(value, low, high), target) == "smaller than claimed":
        gains = [target.gain(end) for end in (low, high)]
        assert target.minimum < min(gains) <= max(gains) < (target.claimed or 0)


def test_a_size_of_our_own_never_makes_a_verdict_weaker() -> None:
    stated, ours = (Target(-1, 1.0, 0.01, 0.5, ours=own) for own in (False, True))
    small, none = Effect(0.9, 0.9, 0.9), Effect(1.0, 1.0, 1.0)
    assert (decide(small, stated), decide(small, ours)) == ("smaller than claimed", "confirmed")
    assert decide(none, ours) == "no effect"


@pytest.mark.parametrize(
    ("effect", "found"),
    [
        ((0.9, 0.8, 0.98), "less"),
        ((1.1, 1.02, 1.2), "more"),
        ((1.0, 0.995, 1.005), "none"),
        ((1.0, 0.9, 1.1), "unclear"),
        ((1.0, -math.inf, math.inf), "unclear"),
    ],
)
def test_a_sign_is_that_of_the_whole_interval(
    effect: tuple[float, float, float], found: Sign
) -> None:
    for direction in (-1, 1):  # whatever is claimed
        assert find_sign(Effect(*effect), Target(direction, 1.0, 0.01)) == found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arms", "verdict"),
    [
        (["confirmed", "no effect", "opposite"], "confirmed"),
        (["larger than claimed", "undecided", "undecided"], "confirmed"),
        (["no effect", "opposite"], "no effect or opposite"),
        (["undecided", "undecided"], "undecided"),
        (["smaller than claimed", "not measured"], "undecided"),
    ],
)
def test_one_comparison_confirms_that_something_may_be(
    arms: list[Verdict], verdict: Verdict
) -> None:
    assert summarize_possible(arms) == verdict


NOT_MET: Verdict = "not testable here"


@pytest.mark.parametrize(
    ("arms", "verdict"),
    [
        (["confirmed", "confirmed", "not measured"], "confirmed"),
        (["confirmed", "not measured"], "undecided"),
        (["confirmed", "not measured", "not measured"], "undecided"),
        (["smaller than claimed", "smaller than claimed"], "smaller than claimed"),
        (["smaller than claimed", "confirmed"], "mixed"),
        (["larger than claimed", "confirmed"], "mixed"),
        (["opposite", "opposite"], "opposite"),
        (["opposite", "no effect"], "no effect or opposite"),
        (["opposite", "no effect", "undecided"], "no effect or opposite"),
        (["opposite", "no effect", "smaller than claimed"], "mixed"),
        (["opposite", "confirmed", "undecided", "undecided", "undecided"], "mixed"),
        (["no effect", "confirmed"], "mixed"),
        (["undecided", "confirmed"], "undecided"),
        (["undecided", "confirmed", "confirmed"], "confirmed"),
        (["undecided", "not measured"], "undecided"),
        (["larger than claimed", NOT_MET, NOT_MET], "larger than claimed"),
        ([NOT_MET], NOT_MET),
        ([NOT_MET, "not measured"], "not measured"),
        (["smaller or none", "smaller or none"], "smaller or none"),
        (["smaller or none", "smaller than claimed", "smaller than claimed"], "smaller or none"),
        (["smaller or none", "no effect"], "smaller or none"),
        (["smaller or none", "opposite", "no effect"], "no effect or opposite"),
        (["smaller or none", "confirmed", "confirmed", "confirmed"], "mixed"),
        (["smaller or none", "undecided"], "undecided"),
        (["listing does not run", "listing does not run"], "listing does not run"),
        (["listing does not run", "confirmed", "confirmed"], "confirmed"),
        (["listing does not run", "not measured"], "not measured"),
        ([], "not measured"),
    ],
)
def test_the_verdict_on_several_arms(arms: list[Verdict], verdict: Verdict) -> None:
    assert summarize(arms) == verdict


@given(st.lists(st.sampled_from(DECIDED), min_size=2))
def test_arms_that_disagree_are_mixed_and_both_sides_are_named(arms: list[Verdict]) -> None:
    named = describe_disagreement((f"arm {i}", verdict) for i, verdict in enumerate(arms))
    assert bool(named) == (len(set(arms)) > 1)
    if summarize(arms) not in ("mixed", "no effect or opposite") and named:
        assert "smaller or none" in arms, "it agrees with all that is less than claimed"
        assert set(arms) <= set(FAILED)
        assert summarize(arms) == "smaller or none"
    if named:
        assert all(f"arm {i}" in named for i in range(len(arms)))
        assert all(verdict in named for verdict in arms)


@pytest.mark.parametrize(
    ("effect", "target", "verdicts"),
    [
        ((0.55, 0.5, 0.66), FORTY_LESS, ["confirmed", "larger than claimed"]),
        ((0.9, 0.85, 1.005), FORTY_LESS, ["no effect", "smaller than claimed"]),
        ((0.9, 0.5, 1.2), FORTY_LESS, [*FAILED[:2], *DECIDED[3:]]),
        ((0.9, 0.8, 1.005), Target(-1, 1.0, 0.01), ["no effect", "confirmed"]),
        ((0.2, 0.1, 0.28), Target(-1, 1.0, 0.01, 0.3, or_more=True), ["confirmed"]),
        ((0.31, 0.31, 0.31), Target(-1, 1.0, 0.01, 0.3, or_more=True), ["smaller than claimed"]),
        ((0.9, -math.inf, math.inf), FORTY_LESS, []),
    ],
)
def test_between_lists_the_verdicts_left_open(
    effect: tuple[float, float, float], target: Target, verdicts: list[Verdict]
) -> None:
    assert list(list_open_verdicts(Effect(*effect), target)) == verdicts


@given(INTERVALS, TARGETS)
def test_a_decided_verdict_is_the_only_one_left_open(ends: list[float], target: Target) -> None:
    low, value, high = ends
    effect = Effect(value, low, high)
    found, left = decide(effect, target), list_open_verdicts(effect, target)
    assert left
    if found == "no effect":  # at most: the opposite is none either
        assert set(left) <= {"opposite", "no effect"}
    elif found == "smaller or none":
        assert set(left) <= set(FAILED)
        assert len(left) > 1
    else:
        assert (left == (found,)) == (found != "undecided")
