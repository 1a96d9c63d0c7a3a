"""What cards have measured of a claim's arms, beside the records of a machine without one.

At full size a measurement of an arm's two cases decides in place of a plan of the same two, whatever the plan's batch:
it stands beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from framebench.claims.claim import Claim
from framebench.claims.entries import Line
from framebench.claims.lines import line
from framebench.claims.store import Measured
from framebench.suite.case import FULL_SIZE, Case


def added(claim: Claim, lines: Sequence[Line], cards: Iterable[Measured]) -> list[Line]:
    """The lines with those of cards behind them; a plan whose cases a card has measured decides no more."""
    measured = [found for card in cards for found in measured_on(claim, card)]
    known = {pair(one) for one in measured if one.decides}
    return [replace(one, decides=False) if one.planned and pair(one) in known else one for one in lines] + measured


def measured_on(claim: Claim, card: Measured) -> list[Line]:
    """The arms of which the card has a number, named with it."""
    arms = [arm for arm in claim.every_arm if card.has_all(arm.measure.cases(FULL_SIZE))]
    return [named for arm in arms if (named := _named(line(claim, arm, card, FULL_SIZE), card)).value is not None]


def _named(one: Line, card: Measured) -> Line:
    return replace(one, id=f"{one.id}, {card.machine}", name=f"{one.name}, {card.machine}", elsewhere=card.machine)


def pair(one: Line) -> tuple[object, ...]:
    """What is compared, and in which two cases but for their batch."""
    cases = map(Case.of, one.cases)
    return one.metric, *((case.workload, case.framework, case.scenario, case.strategy) for case in cases)
