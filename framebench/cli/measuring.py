"""What the commands share that measure cases: their options, and the measuring itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import err, parse_bytes, say
from framebench.engine import blocks as measured
from framebench.engine import environments, runner
from framebench.engine.environments import Environment
from framebench.engine.groups import groups, pair
from framebench.engine.progress import CaseProgress
from framebench.engine.request import Asked
from framebench.engine.session import Session
from framebench.engine.timed_process import Arm
from framebench.ranks import measure as over_ranks
from framebench.suite import profiles
from framebench.suite.case import Case

Blocks = Annotated[int, typer.Option(min=1, help="Number of blocks per case. Published results use at least 5.")]
Turns = Annotated[int, typer.Option(min=0, help="Rounds per block. Below 3, times are discarded; 0 measures memory only.")]
Threads = Annotated[int, typer.Option(min=1, help="1 pins the timing worker to one core.")]
TimeLimit = Annotated[float, typer.Option(min=0.01, help="Seconds for each of a case's two workers.")]
MemoryLimit = Annotated[str | None, typer.Option(help="Private memory that a worker may map, such as 2GiB.")]


def asked(
    selectors: list[str] | None, profile: str | None, blocks: int, rounds: int, threads: int, time_limit: float,
    memory_limit: str | None, env: str | None,
) -> Asked:  # fmt: skip
    """Raises typer.BadParameter."""
    profile = profile or (None if selectors else profiles.profile_name())
    options = runner.Options(
        profile=profile, threads=threads, rounds=rounds, time_limit_s=time_limit,
        memory_limit=parse_bytes(memory_limit) if memory_limit else None,
    )  # fmt: skip
    return Asked(tuple(selectors or ()), profile, options, env, blocks)


def measure_all(
    cases: list[Case],
    session: Session,
    ready: dict[str, Environment],
    options: runner.Options,
    results: Path,
    blocks: int = 1,
    pairs: Sequence[tuple[Case, Case]] = (),
) -> list[str]:
    """Each case's status, the worst of its blocks; what this session has measured already is not repeated. Cases of `pairs`,
    which are among those found, are measured in a block with the other one."""
    able = [case for case in cases if not runner.unsupported(case)]
    paired = {case for pair in pairs for case in pair}
    where = {case: environments.of_case(case, ready.get(case.framework), say) for case in cases}
    with (
        CaseProgress(cases, results, err, blocks, session.id, at_once=1 if options.rounds else len(options.cores())) as told,
        measured.Run(session.id, options, results, told) as run,
    ):
        for case in cases:
            if case not in able:
                measured.not_measured(case, run, where[case])
        for case in able:
            if case.ranks > 1:
                over_ranks.measure(case, where[case], run)
        alone = groups([case for case in able if case not in paired and case.ranks == 1], ready)
        measured.measure([*alone, *(pair(*both, ready) for both in pairs if set(both) <= set(able))], run, blocks)
        records = {case: run.records(Arm(case, where[case])) for case in cases}
    return [next((r.status for r in has if r.status != "ok"), "ok") for has in records.values()]
