"""What the commands share that measure cases: their options, and the measuring itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import MOST_S, err, parse_bytes, say
from framebench.engine import environments, runner
from framebench.engine.blocks import Run, record_unsupported
from framebench.engine.blocks import measure as measure_blocks
from framebench.engine.environments import Environment
from framebench.engine.groups import Group, make_groups, make_pair
from framebench.engine.progress import CaseProgress
from framebench.engine.request import RunRequest
from framebench.engine.session import Session
from framebench.engine.timed_process import Variant
from framebench.ranks.measure import measure as measure_ranks
from framebench.suite import profiles
from framebench.suite.case import Case

BLOCKS_HELP = "Number of blocks per case. Published results use at least 5."
ROUNDS_HELP = "Rounds per block. Below 3, times are discarded; 0 measures memory only."
Blocks = Annotated[int, typer.Option(min=1, help=BLOCKS_HELP)]
Turns = Annotated[int, typer.Option(min=0, help=ROUNDS_HELP)]
Threads = Annotated[int, typer.Option(min=1, help="1 pins the timing worker to one core.")]
TimeLimit = Annotated[
    float,
    typer.Option(min=0.01, max=MOST_S, help="Seconds for each of a case's two workers."),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(help="Private memory that a worker may map, such as 2GiB."),
]


def make_request(
    selectors: list[str] | None,
    profile: str | None,
    blocks: int,
    rounds: int,
    threads: int,
    time_limit: float,
    memory_limit: str | None,
    env: str | None,
) -> RunRequest:
    """Return the request that the options of `run` and `plan` make. Raises typer.BadParameter.

    Where they name neither cases nor a profile, the profile is $FRAMEBENCH_PROFILE, or quick.
    """
    if not profile and not selectors:
        profile = profiles.read_profile_name()
    options = runner.Options(
        profile=profile or None,
        threads=threads,
        rounds=rounds,
        time_limit_s=time_limit,
        memory_limit=parse_bytes(memory_limit) if memory_limit else None,
    )
    return RunRequest(tuple(selectors or ()), profile or None, options, env, blocks)


def measure_all(
    cases: list[Case],
    session: Session,
    environments_by_framework: dict[str, Environment],
    options: runner.Options,
    results: Path,
    blocks: int = 1,
    pairs: Sequence[tuple[Case, Case]] = (),
) -> list[str]:
    """Measure cases, and return the status of each: the first of its records that is not ok.

    What this session has measured already is not repeated. Cases of `pairs`, which are among
    `cases`, are measured in a block with each other.
    """
    environment_by_case = {}
    for case in cases:
        environment = environments_by_framework.get(case.framework)
        environment_by_case[case] = environments.find_for_case(case, environment, say)
    at_once = 1 if options.rounds else len(options.list_cores())
    progress = CaseProgress(cases, results, err, blocks, session.id, at_once=at_once)
    with progress as listener, Run(session.id, options, results, listener) as run:
        supported = []
        for case in cases:
            if runner.explain_unsupported(case):
                record_unsupported(case, run, environment_by_case[case])
            else:
                supported.append(case)
        for case in supported:
            if case.ranks > 1:
                measure_ranks(case, environment_by_case[case], run)
        measure_blocks(list_groups(supported, pairs, environments_by_framework), run, blocks)
        statuses: list[str] = []
        for case in cases:
            records = run.get_records(Variant(case, environment_by_case[case]))
            failures = [record.status for record in records if record.status != "ok"]
            statuses.append(failures[0] if failures else "ok")
        return statuses


def list_groups(
    cases: list[Case],
    pairs: Sequence[tuple[Case, Case]],
    environments_by_framework: dict[str, Environment],
) -> list[Group]:
    """Return the groups of cases; each group is measured in a block of its own.

    Cases over ranks are in no group. A pair is left out if one of the two is not among `cases`.
    """
    paired = set(chain.from_iterable(pairs))
    unpaired = [case for case in cases if case not in paired and case.ranks == 1]
    groups = make_groups(unpaired, environments_by_framework)
    for base, change in pairs:
        if base in cases and change in cases:
            groups.append(make_pair(base, change, environments_by_framework))
    return groups
