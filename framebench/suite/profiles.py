"""List the declared cases, and those of each profile, which a run measures when none is named."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from pathlib import Path

from framebench.models import spec
from framebench.strategies.registry import OVER_RANKS, SCENARIOS, freeze, list_strategies
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case, UnknownCase, find_first_batch, is_declared

RANKS = (2, 4)  # cases are measured over so many; any number can be predicted


@cache
def list_cases() -> tuple[Case, ...]:
    """Return all declared cases of a single process in every size, unsupported ones included."""
    strategies = []
    for scenario in SCENARIOS:
        strategies += [(scenario, strategy) for strategy in list_strategies(scenario)]
    return tuple(make_cases(strategies))


@cache
def list_rank_cases() -> tuple[Case, ...]:
    """Return all declared cases of several ranks, at the base batch.

    These cases are in no profile, since each rank needs a core.
    """
    cases = make_cases(OVER_RANKS, RANKS)
    return tuple(case for case in cases if case.batch == case.workload_spec.preset(case.size).base)


def make_cases(strategies: Iterable[tuple[str, str]], ranks: tuple[int, ...] = (1,)) -> list[Case]:
    """Return the declared cases of these (scenario, strategy).

    The cases are of every workload, size, framework and batch.
    """
    strategies = list(strategies)
    cases = []
    for workload in spec.list_workloads():
        for size, preset in spec.load_workload(workload).sizes.items():
            for framework, (scenario, strategy) in product(FRAMEWORKS, strategies):
                for batch, number in product(preset.batches, ranks):
                    case = Case(workload, framework, scenario, strategy, batch, size, number)
                    if is_declared(case):
                        cases.append(case)
    return cases


@cache
def list_by_id() -> dict[str, Case]:
    """Return every declared case by its id."""
    return {case.id: case for case in (*list_cases(), *list_rank_cases())}


@dataclass(frozen=True)
class Profile:
    """The strategies of one size: the baselines at every batch, and the others at one.

    If `quick`, it has those strategies that the catalog marks so, at the base batch. With
    `batches`, it has each strategy at so many batches, from the base one on if there are as many.
    """

    summary: str
    size: str
    quick: bool = False
    only: tuple[str, ...] = ()  # workload/framework/scenario/strategy, as globs
    rounds: int = 8  # of a block
    limit_s: float = 900.0  # of each of a case's two processes: one that takes longer is ended
    # the limit where the CPU is known to be slow at the case's precision
    slow_limit_s: float | None = None
    # workload/scenario/strategy that is measured at the next batch too; all of them twice would
    # take too long
    also_at_the_next_batch: str = ""
    batches: int = 0  # each a factor of two apart


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PROFILES = {name: Profile(**freeze(table)) for name, table in _TABLES.items()}


def read_profile_name() -> str:
    """Return $FRAMEBENCH_PROFILE, or `quick`."""
    return os.environ.get("FRAMEBENCH_PROFILE") or "quick"


def find_profile(name: str | None = None) -> Profile:
    """Return a profile, by default the one of $FRAMEBENCH_PROFILE. Raises UnknownCase."""
    name = name or read_profile_name()
    if name not in PROFILES:
        raise UnknownCase(f"no profile {name!r}; profiles: {', '.join(PROFILES)}")
    return PROFILES[name]


def list_profile_cases(name: str | None = None) -> list[Case]:
    """Return the cases of a profile, by default the one of $FRAMEBENCH_PROFILE.

    Raises UnknownCase.
    """
    profile = find_profile(name)
    cases = []
    for case in list_cases():
        if case.size != profile.size or case.batch not in list_batches(case, profile):
            continue
        strategy = f"{case.workload}/{case.framework}/{case.scenario}/{case.strategy}"
        if not profile.only or any(fnmatchcase(strategy, glob) for glob in profile.only):
            cases.append(case)
    return cases


def list_batches(case: Case, profile: Profile) -> tuple[int, ...]:
    """Return the batches at which the profile has this case's strategy.

    Where it is a single one, that is the smallest that the strategy's micro-batches divide.
    """
    preset = case.workload_spec.preset(case.size)
    from_base = tuple(batch for batch in preset.batches if batch >= preset.base)
    if profile.batches:
        if len(from_base) < profile.batches:
            return preset.batches[-profile.batches :]
        return from_base[: profile.batches]
    if profile.quick:
        if not case.strategy_spec.quick or case.scenario not in ("train", "eval"):
            return ()
        name = f"{case.workload}/{case.scenario}/{case.strategy}"
        if name == profile.also_at_the_next_batch:
            return from_base[:2]
        return from_base[:1]
    if case.strategy == case.scenario_spec.baseline:
        return preset.batches
    return (find_first_batch(case),)
