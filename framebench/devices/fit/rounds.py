"""Carry on the searches for the largest batch together, and show how far they are as a whole."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from framebench.cli.shared import say, show_progress
from framebench.devices.catalog import Device
from framebench.devices.fit.fitting import PredictedBatchSearch
from framebench.devices.plans import planning
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.process import Planners
from framebench.engine.environments import Environment
from framebench.engine.progress import format_duration
from framebench.suite.case import Case


class SearchRounds:
    """Searches that go on together: each round plans the next batch of every one.

    A round ends with its last plan, so a worker without a case waits for the others.
    """

    def __init__(self, searches: Sequence[PredictedBatchSearch], at_once: int) -> None:
        """Begin before the first round; `at_once` cases are planned next to each other."""
        self.searches = searches
        self.at_once = at_once
        self.begun_at = datetime.now(UTC)
        self.round = 0
        self.most_rounds = max(search.most_plans_left for search in searches)
        self.round_size = 0  # cases of this round
        self.failed = 0  # of this round
        self.waiting: dict[Case, PredictedBatchSearch] = {}  # those without a prediction yet
        # of each plan made now, by framework: none where all so far are cached
        self.seconds: dict[str, list[float]] = {}

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
        made_now = self.seconds.setdefault(planned.framework, [])
        if planned.origin.planned_at >= self.begun_at:
            made_now.append(planned.origin.wall_s)
        return search

    def estimate_seconds_left(self) -> float | None:
        """Return about how long the searches may still take, if each needs its most plans.

        A plan counts as the mean of its framework's plans so far, and as nothing where these were
        cached. Returns None as long as a framework has no plan, which may take much longer than
        another's, and as long as all plans were cached.
        """
        left = []  # seconds of each search, whose plans are made one after the other
        for search in self.searches:
            framework = search.case.framework
            if framework not in self.seconds:
                return None
            mean = statistics.mean(self.seconds[framework] or [0.0])
            left.append(search.most_plans_left * mean)
        if not any(self.seconds.values()):
            return None
        return max(sum(left) / self.at_once, *left)

    def describe(self) -> str:
        """Return how far the searches are, and about how long they may still take."""
        kept = self.round_size - len(self.waiting) - self.failed
        text = (
            f"round {self.round} of at most {self.most_rounds}: {kept} of {self.round_size} planned"
        )
        if self.failed:
            text += f", {self.failed} failed"
        seconds = self.estimate_seconds_left()
        return text if seconds is None else f"{text}, up to about {format_duration(seconds)} left"


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
    count = planning.count_workers(device)
    rounds = SearchRounds(searches, count)
    has_fit = False
    # planners are kept from round to round: to import a framework takes longer than many plans
    with show_progress(device.title) as show, Planners(count) as planners:

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
