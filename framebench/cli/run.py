"""The command that measures: `run`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.measuring import Blocks, MemoryLimit, Threads, TimeLimit, Turns, asked, measure_all
from framebench.cli.shared import MEASURE, Env, Profile, Results, Selectors, app, broken, chosen, fail, say, session
from framebench.engine import environments, installed, runner
from framebench.engine.request import Asked
from framebench.strategies.strategy import FRAMEWORKS


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
        from framebench.cluster.command import run_on_slurm

        cases = chosen(list(wanted.selectors), [], wanted.profile)
        raise typer.Exit(broken(run_on_slurm(wanted, cases, results.absolute(), settings or [])))
    raise typer.Exit(broken(measure_here(replace(wanted, block=block, beside_torch=beside_torch), results)))


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
