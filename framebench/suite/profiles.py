"""Define profiles: the lists of cases that a run measures when none is named."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import product

from framebench.models import spec
from framebench.strategies.registry import OVER_RANKS, SCENARIOS, list_strategies
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case, UnknownCase, find_first_batch, is_declared

RANKS = (2, 4)  # that cases are measured over; any number is predicted


@cache
def list_cases() -> tuple[Case, ...]:
    """Return all declared cases of a single process in every size, unsupported ones included."""
    strategies = []
    for scenario in SCENARIOS:
        strategies += [(scenario, strategy) for strategy in list_strategies(scenario)]
    cases = []
    for workload in spec.list_workloads():
        for size, preset in spec.load_workload(workload).sizes.items():
            cases += make_cases(workload, size, strategies, preset.batches)
    return tuple(cases)


@cache
def list_rank_cases() -> tuple[Case, ...]:
    """Return all declared cases of several ranks.

    They are in no profile, since each rank needs a core.
    """
    cases = []
    for workload in spec.list_workloads():
        for size, preset in spec.load_workload(workload).sizes.items():
            cases += make_cases(workload, size, OVER_RANKS, (preset.base,), RANKS)
    return tuple(cases)


def make_cases(
    workload: str,
    size: str,
    strategies: Iterable[tuple[str, str]],
    batches: tuple[int, ...],
    ranks: tuple[int, ...] = (1,),
) -> list[Case]:
    """Return those cases of a workload and size that are declared, in every framework.

    `strategies` are (scenario, strategy).
    """
    cases = []
    for framework, (scenario, strategy) in product(FRAMEWORKS, strategies):
        for batch, number in product(batches, ranks):
            case = Case(workload, framework, scenario, strategy, batch, size, number)
            if is_declared(case):
                cases.append(case)
    return cases


@cache
def list_by_id() -> dict[str, Case]:
    """Return every declared case by its id."""
    return {case.id: case for case in (*list_cases(), *list_rank_cases())}


# What saves most without changing the mathematics, as far as a quarter of an hour goes. The 3-D
# convolutions of XLA and Jittor take many seconds on a CPU: there the profile shows what writing
# them as 2-D ones does.
FIRST = (
    "*/*/train/fp32",
    "*/torch/train/checkpoint",
    "*/torch/train/amp_bf16",
    "resnet50/*/train/checkpoint",
    "transformer/*/train/checkpoint",
    "unet3d/*/train/rewrite",
)


# Each strategy at several batches: what everybody asks for, and in each framework the two others
# that save most.
MATRIX = (
    "*/*/train/fp32",
    "*/*/train/amp_bf16",
    "*/*/train/checkpoint",
    "*/*/train/accumulate",
    "*/*/train/checkpoint+accumulate",
    "*/torch/train/amp_bf16+checkpoint",
    "*/torch/train/optimizer_in_backward",
    "*/jax/train/amp_bf16+checkpoint",
    "*/jax/train/checkpoint_dots",
    "*/jittor/train/checkpoint_every_2",
    "*/jittor/train/mem_limit",
    "*/*/eval/no_grad",
    "*/*/eval/amp_bf16",
)


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


PROFILES = {
    "first": Profile(
        "training only: the baselines, and the strategies that save most",
        "cpu",
        quick=True,
        only=FIRST,
        rounds=5,
        limit_s=300.0,
        slow_limit_s=20.0,
    ),
    "tiny": Profile("as quick, in a second or two per case", "tiny", quick=True),
    "quick": Profile(
        "the main strategies of training and evaluation",
        "cpu",
        quick=True,
        # there activations make up most of the memory
        also_at_the_next_batch="transformer/train/fp32",
    ),
    "matrix": Profile(
        "the strategies that save most, each at three batches", "cpu", only=MATRIX, batches=3
    ),
    "standard": Profile("every strategy at sizes for a CPU", "cpu"),
    "full": Profile("every strategy at sizes for a GPU", "full"),
}


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
        has_size = case.size == profile.size
        if has_size and case.batch in list_batches(case, profile) and is_chosen(case, profile):
            cases.append(case)
    return cases


def is_chosen(case: Case, profile: Profile) -> bool:
    """Say whether the profile's patterns choose the case's strategy."""
    name = f"{case.workload}/{case.framework}/{case.scenario}/{case.strategy}"
    return not profile.only or any(fnmatchcase(name, pattern) for pattern in profile.only)


def list_batches(case: Case, profile: Profile) -> tuple[int, ...]:
    """Return the batches at which the profile has this case's strategy.

    Where it is a single one, that is the smallest that the strategy's micro-batches divide.
    """
    preset = case.spec.preset(case.size)
    larger = tuple(batch for batch in preset.batches if batch >= preset.base)
    if profile.batches:
        if len(larger) < profile.batches:
            return preset.batches[-profile.batches :]
        return larger[: profile.batches]
    if profile.quick:
        if not case.plan.quick or case.scenario not in ("train", "eval"):
            return ()
        name = f"{case.workload}/{case.scenario}/{case.strategy}"
        count = 2 if name == profile.also_at_the_next_batch else 1
        return larger[:count]
    if case.strategy == case.stage.baseline:
        return preset.batches
    return (find_first_batch(case),)
