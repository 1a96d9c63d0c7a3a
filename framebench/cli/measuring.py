"""The command that measures: `run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import (
    MEASURE,
    Env,
    Profile,
    Results,
    Selectors,
    app,
    broken,
    chosen,
    err,
    fail,
    needed,
    parse_bytes,
    say,
    session,
)
from framebench.engine import blocks as measured
from framebench.engine import environments, installed, runner
from framebench.engine.environments import Environment
from framebench.engine.groups import groups, pair
from framebench.engine.progress import CaseProgress
from framebench.engine.request import Asked
from framebench.engine.session import Session
from framebench.engine.timed_process import Arm
from framebench.suite import profiles
from framebench.suite.case import Case
from framebench.suite.strategy import FRAMEWORKS

Blocks = Annotated[int, typer.Option(min=1, help="Number of blocks per case. Published results use at least 5.")]
Turns = Annotated[int, typer.Option(min=0, help="Rounds per block. Below 3, times are discarded; 0 measures memory only.")]
Threads = Annotated[int, typer.Option(min=1, help="1 pins the timing worker to one core.")]
TimeLimit = Annotated[float, typer.Option(min=0.01, help="Seconds for each of a case's two workers.")]
MemoryLimit = Annotated[str | None, typer.Option(help="Private memory that a worker may map, such as 2GiB.")]


@app.command(rich_help_panel=MEASURE)
def run(
    selectors: Selectors = None,
    profile: Profile = None,
    results: Results = runner.RESULTS,
    blocks: Blocks = 1,
    rounds: Turns = runner.Options.rounds,
    threads: Threads = 1,
    time_limit: TimeLimit = 900.0,
    memory_limit: MemoryLimit = None,
    env: Env = None,
    block: Annotated[
        int | None, typer.Option(min=0, help="Measure only the block with this number, as `framebench plan` names it.")
    ] = None,
    beside_torch: Annotated[bool, typer.Option("--beside-torch", help="Add PyTorch's baseline to each block.")] = False,
    on: Annotated[
        str | None, typer.Option(help="`slurm` submits jobs, each block on a node of its own. Default: this machine.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--slurm", metavar="NAME=VALUE", help="An option of sbatch, such as partition=cpu. Time is in minutes."),
    ] = None,
) -> None:
    """Measure cases; without any, those of the quick profile. An interrupted run resumes."""
    wanted = asked(selectors, profile, blocks, rounds, threads, time_limit, memory_limit, env)
    if block is not None and blocks != 1:
        fail(f"--block {block} is one block, and --blocks {blocks} is several: leave one of them out", 2)
    if on not in (None, "slurm"):
        fail(f"--on {on!r} is no engine: choose slurm, or have any other start the commands of framebench plan --shell", 2)
    if settings and not on:
        fail(f"--slurm {settings[0]} is for jobs: add --on slurm, or leave it out", 2)
    if on and (block is not None or beside_torch):
        fail("--block and --beside-torch are for one unit on this machine, and --on slurm submits all: leave one out", 2)
    if on:
        on_slurm = needed("run_on_slurm", "cluster")
        cases = chosen(list(wanted.selectors), [], wanted.profile)
        raise typer.Exit(broken(on_slurm(wanted, cases, results.absolute(), settings or [])))
    raise typer.Exit(broken(measure_here(replace(wanted, block=block, beside_torch=beside_torch), results)))


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


def measure_here(wanted: Asked, results: Path) -> list[str]:
    """Each case's status (`measure_all`)."""
    env, chosen_cases = wanted.env, chosen(list(wanted.selectors), [], wanted.profile)
    with session(results, wanted.named, keep=wanted.block is not None) as opened:
        frameworks = [c.framework for c in chosen_cases if env or not runner.unsupported(c)]
        beside = FRAMEWORKS[:1] if wanted.beside_torch and frameworks else ()
        ready = installed.ready([*frameworks, *beside], env, say)
        chosen_cases = [c for c in chosen_cases if not env or c.framework in ready]
        for environment in ready.values():
            environments.warm(environment, wanted.profile or "quick", say)
        return measure_all(chosen_cases, opened, ready, wanted.options, results, wanted.blocks)


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
    over_ranks = needed("measure_over_ranks", "ranks") if any(case.ranks > 1 for case in able) else None
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
            if over_ranks and case.ranks > 1:
                over_ranks(case, where[case], run)
        alone = groups([case for case in able if case not in paired and case.ranks == 1], ready)
        measured.measure([*alone, *(pair(*both, ready) for both in pairs if set(both) <= set(able))], run, blocks)
        records = {case: run.records(Arm(case, where[case])) for case in cases}
    return [next((r.status for r in has if r.status != "ok"), "ok") for has in records.values()]
