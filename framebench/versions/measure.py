"""Measure the same cases in several versions of one framework.

In a block each version is a variant, so that what disturbs the machine disturbs every version
alike. `framebench.versions.judge` judges the records.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from packaging.version import Version

from framebench.engine import releases
from framebench.engine.blocks import SILENT, Listener, Run
from framebench.engine.blocks import measure as measure_blocks
from framebench.engine.environments import Environment, Say, SetupError
from framebench.engine.groups import Group
from framebench.engine.runner import Options
from framebench.engine.timed_process import Variant
from framebench.records.pins import find_pinned_versions
from framebench.strategies.strategy import TITLES
from framebench.suite import profiles
from framebench.suite.case import Case, UnknownCase
from framebench.suite.selectors import replace_framework, select
from framebench.suite.sequences import drop_duplicates

COLD_BLOCKS = 3  # a verdict on first steps needs three that compile
BLOCKS = 7  # fresh processes of each case in each version
# What is measured when nothing is named, at the base batch: each workload, training and evaluation,
# the baseline, recomputation and reduced precision. 3-D convolution in bf16 is the standing canary:
# releases of PyTorch are known to have made it larger.
STANDING = (
    "unet3d/*/train/amp_bf16",
    "transformer/*/train/fp32",
    "transformer/*/train/checkpoint",
    "resnet50/*/eval/no_grad",
)
# cases by which releases are compared on a device that is not here: training at full size
PLANNED = "*/*/train/{fp32,checkpoint}//full"


def choose_versions(framework: str, named: list[str] | None) -> list[str]:
    """Return the versions to measure, oldest first: all that are pinned, unless some are named.

    A release that is not pinned may be named too. Raises UnknownName for an unknown framework,
    SetupError for a release that does not exist and where there are not two of them.
    """
    pinned = find_pinned_versions(framework)
    for version in named or ():
        if version not in pinned:
            releases.check_listed(framework, version)
    versions = sorted(set(named or pinned), key=Version)
    if len(versions) < 2:
        raise SetupError(
            f"{framework} has one version to measure, {versions[0]}, and nothing to compare it "
            "with: name another by --version, or pin it: framebench versions add "
            f"{framework}==VERSION (pinned: {', '.join(pinned)})"
        )
    return versions


def select_cases(
    framework: str, selectors: list[str] | None = None, profile: str | None = None
) -> list[Case]:
    """Return the framework's cases that are named, or those of a profile.

    Without both they are those of STANDING, at the base batch. Raises UnknownCase.
    """
    cases: list[Case] = []
    profile_cases = profiles.list_profile_cases(profile) if profile else None
    if selectors:
        for selector in selectors:
            cases += select(selector, candidates=profile_cases)
    elif profile_cases is not None:
        cases += profile_cases
    else:
        for selector in STANDING:
            cases += select_base_batch(selector)
    selected = [case for case in drop_duplicates(cases) if case.framework == framework]
    if not selected:
        message = f"none of the {len(cases)} cases named is one of {framework}"
        raise UnknownCase(f"{message}{suggest_own_cases(framework, selectors or [])}")
    return selected


def suggest_own_cases(framework: str, selectors: Sequence[str]) -> str:
    """Return the end of a message: the selectors that name a framework's own cases.

    It is "" without selectors.
    """
    own_selectors = [replace_framework(selector, framework) for selector in selectors]
    if not own_selectors:
        return ""
    return f"; those of {TITLES[framework]}: {shlex.join(drop_duplicates(own_selectors))}"


def select_base_batch(selector: str) -> list[Case]:
    """Return the cases of a selector at the batch by which strategies are compared."""
    return [
        case for case in select(selector) if case.batch == case.workload_spec.preset(case.size).base
    ]


def install(framework: str, versions: Sequence[str], say: Say) -> dict[str, Environment]:
    """Build the environments of these versions that do not exist yet, and return all by version.

    Raises SetupError.
    """
    environments_by_version = {}
    for version in versions:
        environments_by_version[version] = releases.ensure_release(
            framework, version, package="", more=(), say=say
        )
    return environments_by_version


def measure(
    cases: list[Case],
    environments_by_version: dict[str, Environment],
    blocks: int,
    session: str,
    options: Options,
    results: Path,
    progress: Listener = SILENT,
) -> list[str]:
    """Measure each case in `blocks` blocks, with the versions as variants.

    Return the statuses of all records. What this session has measured already is not repeated.
    Raises OSError if a record cannot be written.
    """
    groups = []
    all_variants: list[Variant] = []
    for case in cases:
        variants = [Variant(case, each) for each in environments_by_version.values()]
        all_variants += variants
        # every other release is compared with the oldest
        base, *candidates = variants
        groups.append(Group(f"versions/{case.id}", (base,), tuple(candidates)))
    statuses: list[str] = []
    with Run(session, options, results, progress) as run:
        measure_blocks(groups, run, blocks)
        for variant in all_variants:
            statuses += [record.status for record in run.get_records(variant)]
    return statuses
