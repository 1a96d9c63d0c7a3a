"""Profiles: the lists of cases that a run measures when none is named."""

from __future__ import annotations

import os
from functools import cache

from framebench.suite.case import Case, UnknownCase, declared
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


# What a run measures when no case is named. `quick` is the size `cpu` with the strategies that are marked so in the table, at
# one batch, and at a second one where activations make up most of the memory; `tiny` the same in a second or two each, for
# trying things out. `standard` is everything that a CPU can run; `full` everything, at sizes that need a GPU.
PROFILES = {"tiny": "tiny", "quick": "cpu", "standard": "cpu", "full": "full"}
TWICE = "transformer/train/fp32"  # in the quick profile: all at two batches would take too long


def profile_name() -> str:
    return os.environ.get("FRAMEBENCH_PROFILE") or "quick"


def profile(name: str | None = None) -> list[Case]:
    """The cases of a profile; by default that of $FRAMEBENCH_PROFILE, or `quick`. Raises UnknownCase."""
    name = name or profile_name()
    if name not in PROFILES:
        raise UnknownCase(f"no profile {name!r}; profiles: {', '.join(PROFILES)}")
    within = {"tiny": quick, "quick": quick}.get(name, thorough)
    return [case for case in every_case() if case.size == PROFILES[name] and within(case)]


def quick(case: Case) -> bool:
    if not case.plan.quick or case.scenario not in ("train", "eval"):
        return False
    after = [b for b in case.spec.preset(case.size).batches if b > case.spec.preset(case.size).base][:1]
    twice = f"{case.workload}/{case.scenario}/{case.strategy}" == TWICE and case.size == PROFILES["quick"]
    return case.batch in [case.spec.preset(case.size).base, *(after if twice else [])]


def thorough(case: Case) -> bool:
    """Baselines at every batch, the others at one: the smallest from the base on that their micro-batches divide."""
    preset = case.spec.preset(case.size)
    if case.strategy == case.stage.baseline:
        return True
    fits = [b for b in preset.batches if b >= preset.base and b % case.plan.micro_batches == 0]
    return case.batch == (fits or [preset.base])[0]
