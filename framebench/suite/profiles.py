"""Profiles: the lists of cases that a run measures when none is named."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from framebench.suite.case import Case, UnknownCase, declared, first_batch
from framebench.suite.registry import SCENARIOS, names
from framebench.suite.strategy import FRAMEWORKS
from models import spec


@cache
def every_case() -> tuple[Case, ...]:
    """All declared cases in every size, unsupported ones included."""
    return tuple(
        case
        for workload in spec.NAMES
        for size, preset in spec.workload(workload).sizes.items()
        for framework in FRAMEWORKS
        for scenario in SCENARIOS
        for strategy in names(scenario)
        for batch in preset.batches
        if declared(case := Case(workload, framework, scenario, strategy, batch, size))
    )


@cache
def by_id() -> dict[str, Case]:
    return {case.id: case for case in every_case()}


@dataclass(frozen=True)
class Profile:
    """Of one size all strategies, the baselines at every batch and the others at one; or if `quick`, those that the catalog
    marks so, at the base batch."""

    summary: str
    size: str
    quick: bool = False
    limit_s: float = 900.0  # of each of a case's two processes: one that takes longer ends, and says why
    also_at_the_next_batch: str = ""  # workload/scenario/strategy, where all of them twice would take too long


PROFILES = {
    "tiny": Profile("as quick, in a second or two for each case", "tiny", quick=True),
    "quick": Profile(
        "the main strategies of training and evaluation", "cpu", quick=True,
        # there activations make up most of the memory
        also_at_the_next_batch="transformer/train/fp32",
    ),
    "standard": Profile("every strategy at sizes for a CPU", "cpu"),
    "full": Profile("every strategy at sizes for a GPU", "full"),
}  # fmt: skip


def profile_name() -> str:
    return os.environ.get("FRAMEBENCH_PROFILE") or "quick"


def limit_s(name: str | None = None) -> float:
    return PROFILES[name or profile_name()].limit_s


def profile(name: str | None = None) -> list[Case]:
    """The cases of a profile; by default that of $FRAMEBENCH_PROFILE, or `quick`. Raises UnknownCase."""
    name = name or profile_name()
    if name not in PROFILES:
        raise UnknownCase(f"no profile {name!r}; profiles: {', '.join(PROFILES)}")
    chosen = PROFILES[name]
    return [case for case in every_case() if case.size == chosen.size and case.batch in batches(case, chosen)]


def batches(case: Case, chosen: Profile) -> tuple[int, ...]:
    """Those at which the profile has this case's strategy: of a single one the smallest that its micro-batches divide."""
    preset = case.spec.preset(case.size)
    larger = tuple(b for b in preset.batches if b >= preset.base)
    if chosen.quick:
        twice = f"{case.workload}/{case.scenario}/{case.strategy}" == chosen.also_at_the_next_batch
        return larger[: 1 + twice] if case.plan.quick and case.scenario in ("train", "eval") else ()
    if case.strategy == case.stage.baseline:
        return preset.batches
    return (first_batch(case),)
