"""The same cases in several versions of one framework, in turn: what disturbs the machine disturbs every version alike.

A round is one record of each case in each version. Rounds go A B, B A, A B, ...: what drifts steadily, or favours whoever
comes second, cancels over two rounds. All cases have their round before any has its next one, so that a case's rounds are
spread over the whole run. `analysis.rounds` pairs the records of a session by their order, `analysis.reports.versions`
judges them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.version import Version

from framebench.measure import environments, progress, runner
from framebench.measure.environments import Environment, SetupError
from framebench.records import provenance, store
from framebench.records.pins import pinned_versions
from framebench.records.record import Record
from framebench.suite import profiles
from framebench.suite.case import Case, UnknownCase
from framebench.suite.selectors import select

# One more than can show a difference at all: a single round that strays costs no verdict (docs/study.md). asv compare, which
# knows no rounds, cannot tell six processes from six others either, however far they lie apart.
ROUNDS = 7
# What is measured when nothing is named, at the base batch: each workload, training and evaluation, the baseline, recomputation
# and reduced precision. 3-D convolution in bf16 is the standing canary: releases of PyTorch are known to have made it larger.
CANARY = "unet3d/*/train/amp_bf16"
STANDING = (CANARY, "transformer/*/train/fp32", "transformer/*/train/checkpoint", "resnet50/*/eval/no_grad")


class Turn(NamedTuple):
    """One measurement of the plan; rounds count from 0."""

    round: int
    case: Case
    version: str


def matrix(framework: str, wanted: list[str] | None = None) -> list[str]:
    """The versions to measure, oldest first; all that have pinned requirements, unless some are named.

    Raises UnknownName for an unknown framework, SetupError for an unknown version and where there are not two of them.
    """
    known = pinned_versions(framework)
    for version in wanted or ():
        environments.requirement_file(framework, version)
    found = sorted(set(wanted or known), key=Version)
    if len(found) < 2:
        raise SetupError(
            f"{framework} has one version to measure, {found[0]}, and nothing to compare it with; pin another in "
            f"requirements/versions/{framework}-VERSION.txt (there are: {', '.join(known)})"
        )
    return found


def selection(framework: str, selectors: list[str] | None = None, profile: str | None = None) -> list[Case]:
    """The framework's cases that are named, those of a profile, or STANDING at the base batch. Raises UnknownCase."""
    among = profiles.profile(profile) if profile else None
    if not selectors and among is not None:
        found = among
    else:
        found = [c for s in selectors or STANDING for c in select(s, among=among)]
        if not selectors:
            found = [c for c in found if c.batch == c.spec.preset(c.size).base]
    own = [c for c in dict.fromkeys(found) if c.framework == framework]
    if not own:
        raise UnknownCase(f"none of the {len(found)} cases named is one of {framework}: {', '.join(selectors or [])}")
    return own


def turns(chosen: list[Case], versions: list[str], rounds: int) -> Iterator[Turn]:
    """Every measurement, in order; versions take turns at being first."""
    for number in range(rounds):
        for case in chosen:
            for version in versions if number % 2 == 0 else reversed(versions):
                yield Turn(number, case, version)


class Remaining:
    """What is left of the plan, and about how long it takes: as long as the same case took last."""

    def __init__(self, plan: list[Turn], results: Path) -> None:
        self.left = list(plan)
        self.expected = progress.expected_seconds(list(dict.fromkeys(t.case for t in plan)), results)

    def done(self, turn: Turn, seconds: float | None = None) -> None:
        self.left.remove(turn)
        if seconds is not None:
            self.expected[turn.case] = seconds

    @property
    def seconds(self) -> float:
        return sum(self.expected[t.case] for t in self.left)


Told = Callable[[Turn, Record, Remaining], None]


def measure(
    plan: list[Turn],
    ready: dict[str, Environment],
    session: str,
    options: runner.Options,
    results: Path,
    told: Told = lambda turn, record, remaining: None,
) -> list[str]:
    """Go through the plan, but for what this session has measured already; the statuses of all of it.

    `ready` has an environment for each version. Raises OSError if a record cannot be written.
    """
    remaining = Remaining(plan, results)
    statuses: list[str] = []
    for turn in plan:
        environment = ready[turn.version]
        where = store.folder(results, provenance.machine_name(), environment.name, turn.case)
        taken = store.all_of_session(where, session)
        if len(taken) > turn.round:
            remaining.done(turn)
            statuses.append(taken[turn.round].status)
            continue
        record = runner.measure(turn.case, session, environment, options, results)
        remaining.done(turn, record.spent_s.get("total"))
        told(turn, record, remaining)
        statuses.append(record.status)
    return statuses
