"""Profiles: the lists of cases that a run measures when none is named."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from framebench.models import spec
from framebench.strategies.registry import OVER_RANKS, SCENARIOS, list_strategies
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case, UnknownCase, declared, first_batch

RANKS = (2, 4)  # that cases are measured over; any number is predicted


@cache
def every_case() -> tuple[Case, ...]:
    """All declared cases of a single process in every size, unsupported ones included."""
    return _declared(
        [(scenario, strategy) for scenario in SCENARIOS for strategy in list_strategies(scenario)], lambda p: p.batches
    )


@cache
def over_ranks() -> tuple[Case, ...]:
    """All declared cases of several ranks. They are in no profile: each rank needs a core."""
    return _declared(OVER_RANKS, lambda preset: (preset.base,), RANKS)


def _declared(
    strategies: Iterable[tuple[str, str]], batches: Callable[[spec.Preset], tuple[int, ...]], ranks: tuple[int, ...] = (1,)
) -> tuple[Case, ...]:
    return tuple(
        case
        for workload in spec.list_workloads()
        for size, preset in spec.load_workload(workload).sizes.items()
        for framework in FRAMEWORKS
        for scenario, strategy in strategies
        for batch in batches(preset)
        for number in ranks
        if declared(case := Case(workload, framework, scenario, strategy, batch, size, number))
    )


@cache
def by_id() -> dict[str, Case]:
    return {case.id: case for case in (*every_case(), *over_ranks())}


# What saves most without changing the mathematics, as far as a quarter of an hour goes. The 3-D convolutions of XLA and Jittor
# take many seconds on a processor: there it is shown what writing them as 2-D ones does.
FIRST = (
    "*/*/train/fp32", "*/torch/train/checkpoint", "*/torch/train/amp_bf16", "resnet50/*/train/checkpoint",
    "transformer/*/train/checkpoint", "unet3d/*/train/rewrite",
)  # fmt: skip


# Each strategy at several batches: what everybody asks for, and the two that save most beside it in each framework.
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
    """Of one size all strategies, the baselines at every batch and the others at one; or if `quick`, those that the catalog
    marks so, at the base batch; or with `batches`, those of `only` at so many batches, from the base one on where there are as
    many."""

    summary: str
    size: str
    quick: bool = False
    only: tuple[str, ...] = ()  # workload/framework/scenario/strategy, as globs
    rounds: int = 8  # of a block
    limit_s: float = 900.0  # of each of a case's two processes: one that takes longer ends, and says why
    slow_limit_s: float | None = None  # likewise, where the processor is known to be slow at the case's precision
    also_at_the_next_batch: str = ""  # workload/scenario/strategy, where all of them twice would take too long
    batches: int = 0  # each a factor of two apart


PROFILES = {
    "first": Profile(
        "training only: the baselines, and the strategies that save most", "cpu", quick=True,
        only=FIRST, rounds=5, limit_s=300.0, slow_limit_s=20.0,
    ),
    "tiny": Profile("as quick, in a second or two per case", "tiny", quick=True),
    "quick": Profile(
        "the main strategies of training and evaluation", "cpu", quick=True,
        # there activations make up most of the memory
        also_at_the_next_batch="transformer/train/fp32",
    ),
    "matrix": Profile("the strategies that save most, each at three batches", "cpu", only=MATRIX, batches=3),
    "standard": Profile("every strategy at sizes for a CPU", "cpu"),
    "full": Profile("every strategy at sizes for a GPU", "full"),
}  # fmt: skip


def profile_name() -> str:
    return os.environ.get("FRAMEBENCH_PROFILE") or "quick"


def described(name: str | None = None) -> Profile:
    """By default that of $FRAMEBENCH_PROFILE, or `quick`. Raises UnknownCase."""
    name = name or profile_name()
    if name not in PROFILES:
        raise UnknownCase(f"no profile {name!r}; profiles: {', '.join(PROFILES)}")
    return PROFILES[name]


def profile(name: str | None = None) -> list[Case]:
    """The cases of a profile (`described`). Raises UnknownCase."""
    chosen = described(name)
    return [c for c in every_case() if c.size == chosen.size and c.batch in batches(c, chosen) and within(c, chosen)]


def within(case: Case, chosen: Profile) -> bool:
    name = f"{case.workload}/{case.framework}/{case.scenario}/{case.strategy}"
    return not chosen.only or any(fnmatchcase(name, pattern) for pattern in chosen.only)


def batches(case: Case, chosen: Profile) -> tuple[int, ...]:
    """Those at which the profile has this case's strategy: of a single one the smallest that its micro-batches divide."""
    preset = case.spec.preset(case.size)
    larger = tuple(b for b in preset.batches if b >= preset.base)
    if chosen.batches:
        return larger[: chosen.batches] if len(larger) >= chosen.batches else preset.batches[-chosen.batches :]
    if chosen.quick:
        twice = f"{case.workload}/{case.scenario}/{case.strategy}" == chosen.also_at_the_next_batch
        return larger[: 1 + twice] if case.plan.quick and case.scenario in ("train", "eval") else ()
    if case.strategy == case.stage.baseline:
        return preset.batches
    return (first_batch(case),)
