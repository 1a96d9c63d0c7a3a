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
        "no effect worth having",
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
        is_none = (wide, alone) == ("no effect worth having", "contradicted")
        assert wide in ("undecided", alone) or is_none


@given(number, TARGETS)
def test_without_an_interval_nothing_is_decided(value: float, target: Target) -> None:
    assert decide(Effect(value, -math.inf, math.inf), target) == "undecided"


@pytest.mark.parametrize(
    ("effect", "verdict"),
    [
        ((0.6, 0.59, 0.61), "reproduced"),
        ((0.67, 0.66, 0.679), "reproduced"),  # a fifth less than 40 %
        ((0.68, 0.67, 0.69), "undecided"),  # across the limit
        ((0.7, 0.69, 0.71), "weaker"),
        # weaker is smaller in the same direction: here is perhaps none, or the opposite
        ((0.97, 0.9, 1.02), "smaller or none"),
        ((0.8, 0.5, 1.1), "undecided"),
        ((0.5, 0.49, 0.51), "stronger"),
        ((1.0, 0.995, 1.005), "no effect worth having"),
        ((1.0, 0.98, 1.005), "smaller or none"),
        ((1.005, 0.995, 1.2), "no effect worth having"),
        ((1.2, 1.1, 1.3), "contradicted"),
    ],
)
def test_verdicts_on_forty_per_cent_less(
    effect: tuple[float, float, float], verdict: Verdict
) -> None:
    assert decide(Effect(*effect), FORTY_LESS) == verdict


@pytest.mark.parametrize(
    ("effect", "verdict"),
    [
        ((0.98, 0.97, 0.985), "reproduced"),
        ((0.98, 0.97, 0.995), "undecided"),
        ((0.5, 0.2, 1.5), "undecided"),
        ((0.995, 0.991, 0.999), "no effect worth having"),
        ((1.02, 1.005, 1.03), "no effect worth having"),
        ((1.02, 1.011, 1.03), "contradicted"),
    ],
)
def test_verdicts_on_a_direction(effect: tuple[float, float, float], verdict: Verdict) -> None:
    assert decide(Effect(*effect), Target(-1, 1.0, 0.01)) == verdict


def test_a_claim_of_a_least_size_cannot_be_exceeded() -> None:
    seventy = Target(-1, 1.0, 0.01, 0.3)
    assert decide(Effect(0.1, 0.1, 0.1), seventy) == "stronger"
    assert decide(Effect(0.1, 0.1, 0.1), Target(-1, 1.0, 0.01, 0.3, or_more=True)) == "reproduced"


@pytest.mark.parametrize(
    ("expected", "count", "verdict"),
    [
        ("some", 0, "no effect worth having"),
        ("some", 1, "reproduced"),
        ("some", 9, "reproduced"),
        ("none", 0, "reproduced"),
        ("none", 1, "contradicted"),
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
    if decide(Effect(value, low, high), target) == "weaker":
        gains = [target.gain(end) for end in (low, high)]
        assert target.minimum < min(gains) <= max(gains) < (target.claimed or 0)


def test_a_size_of_our_own_never_makes_a_verdict_weaker() -> None:
    stated, ours = (Target(-1, 1.0, 0.01, 0.5, ours=own) for own in (False, True))
    small, none = Effect(0.9, 0.9, 0.9), Effect(1.0, 1.0, 1.0)
    assert (decide(small, stated), decide(small, ours)) == ("weaker", "reproduced")
    assert decide(none, ours) == "no effect worth having"


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


NOT_MET: Verdict = "precondition not met here"


@pytest.mark.parametrize(
    ("arms", "verdict"),
    [
        (["reproduced", "reproduced", "not measured"], "reproduced"),
        (["reproduced", "not measured"], "undecided"),
        (["reproduced", "not measured", "not measured"], "undecided"),
        (["weaker", "weaker"], "weaker"),
        (["weaker", "reproduced"], "mixed"),
        (["stronger", "reproduced"], "mixed"),
        (["contradicted", "contradicted"], "contradicted"),
        (["contradicted", "no effect worth having"], "not supported"),
        (["contradicted", "no effect worth having", "undecided"], "not supported"),
        (["contradicted", "no effect worth having", "weaker"], "mixed"),
        (["contradicted", "reproduced", "undecided", "undecided", "undecided"], "mixed"),
        (["no effect worth having", "reproduced"], "mixed"),
        (["undecided", "reproduced"], "undecided"),
        (["undecided", "reproduced", "reproduced"], "reproduced"),
        (["undecided", "not measured"], "undecided"),
        (["stronger", NOT_MET, NOT_MET], "stronger"),
        ([NOT_MET], NOT_MET),
        ([NOT_MET, "not measured"], "not measured"),
        (["smaller or none", "smaller or none"], "smaller or none"),
        (["smaller or none", "weaker", "weaker"], "smaller or none"),
        (["smaller or none", "no effect worth having"], "smaller or none"),
        (["smaller or none", "contradicted", "no effect worth having"], "not supported"),
        (["smaller or none", "reproduced", "reproduced", "reproduced"], "mixed"),
        (["smaller or none", "undecided"], "undecided"),
        (["snippet does not run", "snippet does not run"], "snippet does not run"),
        (["snippet does not run", "reproduced", "reproduced"], "reproduced"),
        (["snippet does not run", "not measured"], "not measured"),
        ([], "not measured"),
    ],
)
def test_the_verdict_on_several_arms(arms: list[Verdict], verdict: Verdict) -> None:
    assert summarize(arms) == verdict


@given(st.lists(st.sampled_from(DECIDED), min_size=2))
def test_arms_that_disagree_are_mixed_and_both_sides_are_named(arms: list[Verdict]) -> None:
    named = describe_disagreement((f"arm {i}", verdict) for i, verdict in enumerate(arms))
    assert bool(named) == (len(set(arms)) > 1)
    if summarize(arms) not in ("mixed", "not supported") and named:
        assert "smaller or none" in arms, "it agrees with all that is less than claimed"
        assert set(arms) <= set(FAILED)
        assert summarize(arms) == "smaller or none"
    if named:
        assert all(f"arm {i}" in named for i in range(len(arms)))
        assert all(verdict in named for verdict in arms)


@pytest.mark.parametrize(
    ("effect", "target", "verdicts"),
    [
        ((0.55, 0.5, 0.66), FORTY_LESS, ["reproduced", "stronger"]),
        ((0.9, 0.85, 1.005), FORTY_LESS, ["no effect worth having", "weaker"]),
        ((0.9, 0.5, 1.2), FORTY_LESS, [*FAILED[:2], *DECIDED[3:]]),
        ((0.9, 0.8, 1.005), Target(-1, 1.0, 0.01), ["no effect worth having", "reproduced"]),
        ((0.2, 0.1, 0.33), Target(-1, 1.0, 0.01, 0.3, or_more=True), ["reproduced"]),
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
    if found == "no effect worth having":  # at most: the opposite is none either
        assert set(left) <= {"contradicted", "no effect worth having"}
    elif found == "smaller or none":
        assert set(left) <= set(FAILED)
        assert len(left) > 1
    else:
        assert (left == (found,)) == (found != "undecided")
