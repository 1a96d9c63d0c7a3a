"""Carry on the searches for the largest batch together, and show how far they are as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framebench.cli.shared import say, show_progress
from framebench.devices.catalog import Device
from framebench.devices.fit.fitting import MOST_PLANS, PredictedBatchSearch
from framebench.devices.plans import planning
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.process import Planners
from framebench.engine.environments import Environment
from framebench.suite.case import Case


class SearchRounds:
    """Searches that go on together: each round plans the next batch of every one.

    A round ends with its last plan, so a worker without a case waits for the others.
    """

    def __init__(self, searches: Sequence[PredictedBatchSearch]) -> None:
        """Begin before the first round."""
        self.searches = searches
        self.round = 0
        self.round_size = 0  # cases of this round
        self.failed = 0  # of this round
        self.waiting: dict[Case, PredictedBatchSearch] = {}  # those without a prediction yet

    def begin(self) -> list[Case]:
        """Begin a round, and return its cases; none if all searches have ended."""
        self.waiting = {}
        for search in self.searches:
            case = search.next()
            if case:
                self.waiting[case] = search
        self.round += 1
        self.round_size = len(self.waiting)
        self.failed = 0
        return list(self.waiting)

    def keep(self, planned: Planned) -> PredictedBatchSearch:
        """Give a prediction to its search at once, so that an interruption loses none.

        Return the search.
        """
        case = Case.from_id(planned.case)
        search = self.waiting.pop(case)
        search.planned[case.batch] = planned
        self.failed += planned.outcome == "failed"
        return search

    def describe(self) -> str:
        """Return how far the searches are."""
        kept = self.round_size - len(self.waiting) - self.failed
        text = f"round {self.round} of at most {MOST_PLANS}: {kept} of {self.round_size} planned"
        return f"{text}, {self.failed} failed" if self.failed else text


def run_rounds(
    searches: Sequence[PredictedBatchSearch],
    device: Device,
    results: Path,
    environment: Environment | None = None,
) -> None:
    """Plan batch after batch of every search until all have ended.

    The first batch that fits is printed at once, since the searches may take much longer.

    Args:
        searches: At least one. Each has the predictions so far, also after an interruption.
        device: The target device.
        results: The folder of cached predictions.
        environment: The environment of the planner; None takes the pinned one.
    """
    rounds = SearchRounds(searches)
    has_fit = False
    # planners are kept from round to round: to import a framework takes longer than many plans
    with show_progress(device.title) as show, Planners(planning.count_workers(device)) as planners:

        def keep(planned: Planned) -> None:
            nonlocal has_fit
            search = rounds.keep(planned)
            if search.largest_fitting and not has_fit:
                has_fit = True
                say(f"{planned.case} fits; looking for larger batches")
            show(rounds.describe())

        cases = rounds.begin()
        while cases:
            show(rounds.describe())
            planning.plan_all(
                cases,
                device,
                results,
                say,
                keep,
                environment=environment,
                announce=False,
                planners=planners,
            )
            cases = rounds.begin()
