"""What to do: advice is given only where measurements support it."""

from __future__ import annotations

from collections.abc import Sequence

from framebench.claims.claim import Advice, Claim
from framebench.claims.entries import Line, format_effect, span
from framebench.claims.rule import UNMET

NONE = "None: the comparisons support none."


def choose_advice(claim: Claim, lines: Sequence[Line]) -> str:
    """Return the first advice of the claim that its measurements support, with what it rests on."""
    for advice in claim.advice:
        supporting = find_supporting(advice, lines)
        if is_supported(advice, supporting):
            return describe_advice(advice, supporting)
    return NONE


def find_supporting(advice: Advice, lines: Sequence[Line]) -> list[Line]:
    """Return the lines that advice rests on, with those that have no number."""
    lines = [line for line in lines if line.verdict != UNMET]
    if advice.measurements:
        return [line for line in lines if advice.measurements in line.name]
    return [line for line in lines if line.decides]


def is_supported(advice: Advice, lines: Sequence[Line]) -> bool:
    """Return whether the measurements say what the advice says.

    No number may be missing, none may say otherwise, and most must say it for certain.
    """
    if advice.sign is None:
        return True
    signs = [line.sign for line in lines]
    if any(line.value is None for line in lines) or not set(signs) <= {advice.sign, "unclear"}:
        return False
    return 2 * signs.count(advice.sign) > len(signs)


def describe_advice(advice: Advice, lines: Sequence[Line]) -> str:
    """Return the text of advice with the numbers that it rests on."""
    sign = advice.sign
    if sign is None:
        return advice.text

    def departure(line: Line) -> float:
        """Return how far a number is from no effect, in the advice's direction."""
        distance = (line.value or 0) - line.null
        if sign == "less":
            return -distance
        return distance if sign == "more" else abs(distance)

    ranked = sorted(lines, key=departure)  # undecided ones too: no number is left out
    least, most = ranked[0], ranked[-1]
    text = advice.text.format(
        measured=format_effect(*span(lines), lines[0].form),
        range=" to ".join(dict.fromkeys((least.figure, most.figure))),
        least=least.figure,
        most=most.figure,
        least_arm=least.name,
        most_arm=most.name,
    )
    agreeing = sum(line.sign == sign for line in lines)
    comparisons = "comparison" if len(lines) == 1 else "comparisons"
    return f"{text} ({agreeing} of {len(lines)} {comparisons}.)"
