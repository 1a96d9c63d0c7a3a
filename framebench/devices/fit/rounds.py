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
from framebench.engine.environments import Environment
from framebench.engine.progress import format_duration
from framebench.suite.case import Case


class SearchRounds:
    """Searches that go on together: each round plans the next batch of every one."""

    def __init__(self, searches: Sequence[PredictedBatchSearch], at_once: int) -> None:
        """Begin before the first round; `at_once` cases are planned next to each other."""
        self.searches = searches
        self.at_once = at_once
        self.begun_at = datetime.now(UTC)
        self.round = 0
        self.most_rounds = max(search.most_plans_left for search in searches)
        self.waiting: dict[Case, PredictedBatchSearch] = {}  # the cases of this round
        self.kept = 0  # predictions of this round so far
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
        self.kept = 0
        return list(self.waiting)

    def keep(self, planned: Planned) -> None:
        """Give a prediction to its search at once, so that an interruption loses none."""
        case = Case.from_id(planned.case)
        self.waiting[case].planned[case.batch] = planned
        self.kept += 1
        made_now = self.seconds.setdefault(planned.framework, [])
        if planned.origin.planned_at >= self.begun_at:
            made_now.append(planned.origin.wall_s)

    def estimate_most_seconds(self) -> float | None:
        """Return the longest time that all searches may still take.

        Each search is counted with the most plans that it may need. It makes them one after the
        other, each in the mean time of its framework's plans so far. None before the first plan of
        a framework, which may take much longer than another's.
        """
        if not any(self.seconds.values()):
            return None
        by_search = []
        for search in self.searches:
            seconds = self.seconds.get(search.case.framework)
            if seconds is None:
                return None
            by_search.append(search.most_plans_left * statistics.mean(seconds or [0.0]))
        return max(max(by_search), sum(by_search) / self.at_once)

    def describe(self) -> str:
        """Return how far the searches are, and how long they take at most."""
        text = (
            f"round {self.round} of at most {self.most_rounds}: {self.kept} of "
            f"{len(self.waiting)} planned"
        )
        seconds = self.estimate_most_seconds()
        return text if seconds is None else f"{text}, at most about {format_duration(seconds)} left"


def run_rounds(
    searches: Sequence[PredictedBatchSearch],
    device: Device,
    results: Path,
    environment: Environment | None = None,
) -> None:
    """Plan batch after batch of every search until all have ended.

    Args:
        searches: At least one. Each has the predictions so far, also after an interruption.
        device: The target device.
        results: The folder of cached predictions.
        environment: The environment of the planner; None takes the pinned one.
    """
    rounds = SearchRounds(searches, planning.count_workers(device))
    with show_progress(device.title) as show:

        def keep(planned: Planned) -> None:
            rounds.keep(planned)
            show(rounds.describe())

        cases = rounds.begin()
        while cases:
            show(rounds.describe())
            planning.plan_all(
                cases, device, results, say, keep, environment=environment, announce=False
            )
            cases = rounds.begin()
