"""The same cases in several versions of one framework: in a block each version is an arm, so that what disturbs the machine
disturbs every version alike. `framebench.versions.judge` judges the records.
"""

from __future__ import annotations

from pathlib import Path

from packaging.version import Version

from framebench.engine import releases
from framebench.engine.blocks import NOBODY, Listener, Run
from framebench.engine.blocks import measure as blocks_of
from framebench.engine.environments import Environment, SetupError
from framebench.engine.groups import Group
from framebench.engine.runner import Options
from framebench.engine.timed_process import Arm
from framebench.records.pins import pinned_versions
from framebench.suite import profiles
from framebench.suite.case import Case, UnknownCase
from framebench.suite.selectors import select

BLOCKS = 7  # fresh processes of each case in each version
# What is measured when nothing is named, at the base batch: each workload, training and evaluation, the baseline, recomputation
# and reduced precision. 3-D convolution in bf16 is the standing canary: releases of PyTorch are known to have made it larger.
CANARY = "unet3d/*/train/amp_bf16"
STANDING = (CANARY, "transformer/*/train/fp32", "transformer/*/train/checkpoint", "resnet50/*/eval/no_grad")


def matrix(framework: str, wanted: list[str] | None = None) -> list[str]:
    """Return the versions to measure, oldest first: all that are pinned, unless some are named.

    A release that is not pinned may be named too. Raises UnknownName for an unknown framework, SetupError for a
    release that does not exist and where there are not two of them.
    """
    available_versions = pinned_versions(framework)
    for version in wanted or ():
        if version not in available_versions:
            releases.check_listed(framework, version)
    chosen_versions = sorted(set(wanted or available_versions), key=Version)
    if len(chosen_versions) < 2:
        raise SetupError(
            f"{framework} has one version to measure, {chosen_versions[0]}, and nothing to compare it with: name another by"
            f" --version, or pin it: framebench versions add {framework}==VERSION (pinned: {', '.join(available_versions)})"
        )
    return chosen_versions


def selection(framework: str, selectors: list[str] | None = None, profile: str | None = None) -> list[Case]:
    """The framework's cases that are named, those of a profile, or STANDING at the base batch. Raises UnknownCase."""
    among = profiles.profile(profile) if profile else None
    if not selectors and among is not None:
        named_cases = among
    else:
        named_cases = [c for s in selectors or STANDING for c in select(s, among=among)]
        if not selectors:
            named_cases = [c for c in named_cases if c.batch == c.spec.preset(c.size).base]
    framework_cases = [c for c in dict.fromkeys(named_cases) if c.framework == framework]
    if not framework_cases:
        raise UnknownCase(f"none of the {len(named_cases)} cases named is one of {framework}: {', '.join(selectors or [])}")
    return framework_cases


def measure(
    chosen: list[Case], ready: dict[str, Environment], blocks: int, session: str, options: Options, results: Path,
    told: Listener = NOBODY,
) -> list[str]:  # fmt: skip
    """So many blocks of each case, with the versions in `ready` as arms; the statuses of all records. What this session has
    measured already is not repeated.

    Raises OSError if a record cannot be written.
    """
    sets = [[Arm(case, environment) for environment in ready.values()] for case in chosen]
    groups = [Group(f"versions/{arms[0].case.id}", tuple(arms[:1]), tuple(arms[1:])) for arms in sets]
    with Run(session, options, results, told) as run:
        blocks_of(groups, run, blocks)
        return [r.status for arms in sets for arm in arms for r in run.records(arm)]
