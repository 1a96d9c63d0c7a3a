"""What the commands share that measure cases: their options, and the measuring itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import MOST_S, err, parse_bytes, say
from framebench.engine import blocks as measured
from framebench.engine import environments, runner
from framebench.engine.environments import Environment
from framebench.engine.groups import Group, make_groups, make_pair
from framebench.engine.progress import CaseProgress
from framebench.engine.request import RunRequest
from framebench.engine.session import Session
from framebench.engine.timed_process import Variant
from framebench.ranks import measure as over_ranks
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
    ready: dict[str, Environment],
    options: runner.Options,
    results: Path,
    blocks: int = 1,
    pairs: Sequence[tuple[Case, Case]] = (),
) -> list[str]:
    """Measure cases, and return the status of each: the first of its records that is not ok.

    What this session has measured already is not repeated. `ready` has the environments by
    framework. Cases of `pairs`, which are among `cases`, are measured in a block with each other.
    """
    where = {}
    for case in cases:
        where[case] = environments.find_for_case(case, ready.get(case.framework), say)
    at_once = 1 if options.rounds else len(options.list_cores())
    progress = CaseProgress(cases, results, err, blocks, session.id, at_once=at_once)
    with progress as listener, measured.Run(session.id, options, results, listener) as run:
        able = []
        for case in cases:
            if runner.explain_unsupported(case):
                measured.record_unsupported(case, run, where[case])
            else:
                able.append(case)
        for case in able:
            if case.ranks > 1:
                over_ranks.measure(case, where[case], run)
        measured.measure(list_groups(able, pairs, ready), run, blocks)
        statuses: list[str] = []
        for case in cases:
            records = run.get_records(Variant(case, where[case]))
            failures = [record.status for record in records if record.status != "ok"]
            statuses.append(failures[0] if failures else "ok")
        return statuses


def list_groups(
    cases: list[Case],
    pairs: Sequence[tuple[Case, Case]],
    ready: dict[str, Environment],
) -> list[Group]:
    """Return the groups of cases; each group is measured in a block of its own.

    Cases over ranks are in none, and a pair is left out where one of the two is not among `cases`.
    """
    paired = set(chain.from_iterable(pairs))
    alone = [case for case in cases if case not in paired and case.ranks == 1]
    groups = make_groups(alone, ready)
    for base, change in pairs:
        if base in cases and change in cases:
            groups.append(make_pair(base, change, ready))
    return groups
