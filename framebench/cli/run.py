"""The command that measures: `run`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.measuring import (
    Blocks,
    MemoryLimit,
    Threads,
    TimeLimit,
    Turns,
    make_request,
    measure_all,
)
from framebench.cli.shared import (
    MEASURE,
    Env,
    ProfileOption,
    ResultsOption,
    Selectors,
    app,
    choose_cases,
    end_command,
    fail,
    open_session,
    report_failures,
    say,
)
from framebench.engine import environments, installed, runner
from framebench.engine.request import RunRequest

BLOCK_HELP = "Measure only the block with this number, as `framebench plan` names it."
ON_HELP = (
    "`slurm` submits jobs, each block on a node of its own; `gpus` measures a block at a time on "
    "each GPU of this machine. Default: this machine's first GPU, or its processor."
)
SLURM_HELP = "An option of sbatch, such as partition=cpu. Time is in minutes."


@app.command(rich_help_panel=MEASURE)
def run(
    selectors: Selectors = None,
    profile: ProfileOption = None,
    results: ResultsOption = runner.RESULTS,
    blocks: Blocks = 1,
    rounds: Turns = runner.Options.rounds,
    threads: Threads = 1,
    time_limit: TimeLimit = 900.0,
    memory_limit: MemoryLimit = None,
    env: Env = None,
    block: Annotated[int | None, typer.Option(min=0, help=BLOCK_HELP)] = None,
    beside_torch: Annotated[
        bool, typer.Option("--beside-torch", help="Add PyTorch's baseline to each block.")
    ] = False,
    on: Annotated[str | None, typer.Option(help=ON_HELP)] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--slurm", metavar="NAME=VALUE", help=SLURM_HELP)
    ] = None,
) -> None:
    """Measure cases; without any, those of the quick profile. An interrupted run resumes."""
    request = make_request(
        selectors,
        profile,
        blocks,
        rounds,
        threads,
        time_limit,
        memory_limit,
        env,
    )
    request = replace(request, block=block, beside_torch=beside_torch)
    check_options(request, on, settings or [])
    if on:
        from framebench.cluster import command as cluster

        cases = choose_cases(list(request.selectors), [], request.profile)
        if on == "gpus":
            statuses = cluster.run_on_gpus(request, cases, results.absolute())
        else:
            statuses = cluster.run_on_slurm(request, cases, results.absolute(), settings or [])
    else:
        statuses = measure_here(request, results)
    has_failed = report_failures(statuses)
    end_command(succeeded=not has_failed)


def check_options(request: RunRequest, on: str | None, settings: list[str]) -> None:
    """End the command with exit code 2 where its options contradict each other."""
    block = request.block
    if block is not None and request.blocks != 1:
        fail(
            f"--block {block} is one block, and --blocks {request.blocks} is several: leave one "
            "of them out",
            2,
        )
    if on not in (None, "slurm", "gpus"):
        fail(
            f"--on {on!r} is no engine: choose slurm or gpus, or have any other start the commands "
            "of framebench plan --shell",
            2,
        )
    if settings and on != "slurm":
        fail(f"--slurm {settings[0]} is for jobs: add --on slurm, or leave it out", 2)
    if on and (block is not None or request.beside_torch):
        fail(
            f"--block and --beside-torch are for one unit on this machine, and --on {on} measures "
            "all: leave one out",
            2,
        )


def measure_here(request: RunRequest, results: Path) -> list[str]:
    """Measure the cases of a request on this machine, and return the status of each.

    With `--env`, a framework that is not installed there is left out with its cases.
    """
    env = request.env
    cases = choose_cases(list(request.selectors), [], request.profile)
    with open_session(results, request.session_name, keep=request.block is not None) as session:
        frameworks = []
        for case in cases:
            # a framework that cannot measure any of the cases needs no environment
            if env or not runner.explain_unsupported(case):
                frameworks.append(case.framework)
        if request.beside_torch and frameworks:
            frameworks.append("torch")
        found = installed.find_environments(frameworks, env, say)  # by framework
        if env:
            cases = [case for case in cases if case.framework in found]
        for environment in found.values():
            environments.warm(environment, cases, say)
        return measure_all(cases, session, found, request.options, results, request.blocks)
