"""What to do: given only where the arms that it rests on are there, and say what it says."""

from __future__ import annotations

from collections.abc import Sequence

from framebench.claims.claim import Advice, Claim
from framebench.claims.entries import Line, hull, shown
from framebench.claims.rule import UNMET

NONE = "None: the arms do not carry one."
SHOWN = {"less": "a decrease", "more": "an increase", "none": "no difference", "unclear": "either"}


def advice(claim: Claim, lines: Sequence[Line]) -> str:
    """The first of the claim's that its arms carry, with the arms and the sign that it rests on."""
    return next((said(one, rests_on(one, lines)) for one in claim.advice if carried(one, lines)), NONE)


def rests_on(one: Advice, lines: Sequence[Line]) -> list[Line]:
    """Arms that were tried and can have no number are left out: they are named among the remarks."""
    named = [line for line in lines if (one.arms in line.name if one.arms else line.decides)]
    return [line for line in named if line.verdict != UNMET and not (line.value is None and line.tried)]


def carried(one: Advice, lines: Sequence[Line]) -> bool:
    """Whether no arm is missing, none says otherwise, and most say for certain what the advice says."""
    arms = rests_on(one, lines)
    agreeing = sum(line.sign == one.sign for line in arms)
    missing = any(line.value is None for line in arms)
    return one.sign is None or (
        not missing and {line.sign for line in arms} <= {one.sign, "unclear"} and 2 * agreeing > len(arms)
    )


def said(one: Advice, arms: Sequence[Line]) -> str:
    if one.sign is None:
        return one.text
    agree = [line for line in arms if line.sign == one.sign]
    direction = {"less": -1, "more": 1}.get(one.sign)
    ranked = sorted(arms, key=lambda line: _departure(line, direction))  # undecided ones too: nobody's number is left out
    least, most = ranked[0], ranked[-1]
    text = one.text.format(
        measured=shown(*hull(arms), arms[0].form), range=" to ".join(dict.fromkeys((least.figure, most.figure))),
        least=least.figure, most=most.figure, least_arm=least.name, most_arm=most.name,
    )  # fmt: skip
    if len(arms) == 1:
        return f"{text} (1 arm {f'with {one.arms!r}' if one.arms else 'that decides'} shows {SHOWN[one.sign]}.)"
    which = f"with {one.arms!r}" if one.arms else "that decide"
    return f"{text} ({len(agree)} of {len(arms)} arms {which} show {SHOWN[one.sign]}.)"


def _departure(line: Line, direction: int | None) -> float:
    """How far from no effect: in a direction, or to either side."""
    departure = (line.value or 0) - line.null
    return abs(departure) if direction is None else direction * departure
