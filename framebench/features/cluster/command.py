"""Commands for many machines: `plan | collect | check-results`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from framebench.cli.measuring import Blocks, Env, MemoryLimit, Threads, TimeLimit, Turns, asked
from framebench.cli.shared import MACHINES, AsJson, Profile, Results, Selectors, app, chosen, out, say
from framebench.engine import runner
from framebench.features.cluster import units
from framebench.records import provenance


@app.command(rich_help_panel=MACHINES)
def plan(
    selectors: Selectors = None,
    profile: Profile = None,
    results: Results = runner.RESULTS,
    blocks: Blocks = 1,
    rounds: Turns = runner.Options.rounds,
    threads: Threads = 1,
    time_limit: TimeLimit = 900.0,
    memory_limit: MemoryLimit = None,
    env: Env = None,
    shell: Annotated[
        bool, typer.Option("--shell", help="one command a line: for GNU parallel, Snakemake, Kubernetes jobs")
    ] = False,
) -> None:
    """What `framebench run` would measure, as units for several machines: one block of one group of cases each. What is done is
    left out."""
    wanted = asked(selectors, profile, blocks, rounds, threads, time_limit, memory_limit, env)
    every = units.units(wanted, chosen(list(wanted.selectors), [], wanted.profile))
    left = units.unfinished(every, results, provenance.code())
    if shell:
        program, where = shutil.which(sys.argv[0]), results.absolute()
        for unit in left:
            typer.echo(units.shell(unit, str(Path(program).absolute()) if program else "framebench", where))
    else:
        table = Table("block", "cases", box=None)
        for unit in left:
            table.add_row(str(unit.block), unit.selectors[0])
        out.print(table)
    say(f"{len(left)} units, {len(every) - len(left)} more are done; one at a time on a machine, and nothing else beside it")


@app.command("collect", rich_help_panel=MACHINES)
def collect_(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", exists=True, file_okay=False, help="results folders")],
    results: Annotated[Path, typer.Option(file_okay=False, help="the folder that they are added to")] = runner.RESULTS,
    machine: Annotated[str | None, typer.Option(help="a name for machines that have none there yet")] = None,
) -> None:
    """Add the records of several results folders to one. What is there already is not added again.

    Machines of equal hardware get one name. Records of one measurement that differ are kept aside, and shown.
    """
    from framebench.features.cluster.collect import collect

    found = collect(folders, results, machine)
    for name, nodes in sorted(found.machines.items()):
        say(f"{name}: {', '.join(sorted(nodes))}")
    for sentence in (*found.conflicts, *found.unreadable):
        say(sentence)
    typer.echo(
        f"{len(found.added)} records added, {found.known} known, {len(found.conflicts)} conflicts, "
        f"{len(found.unreadable)} unreadable: {results}"
    )
    raise typer.Exit(bool(found.conflicts or found.unreadable))


@app.command("check-results", rich_help_panel=MACHINES)
def check_results(
    folder: Annotated[Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="a results folder")],
    as_json: AsJson = False,
) -> None:
    """Whether somebody's records hold together, and could have been measured. Nothing of theirs is executed."""
    from framebench.features.cluster.checks import check

    found = check(folder)
    if as_json:
        typer.echo(json.dumps({"records": len(found.records), "problems": found.problems, "notes": found.notes}, indent=1))
    else:
        for sentence in found.problems:
            out.print(f"NO  {sentence}", markup=False, highlight=False, soft_wrap=True)
        for sentence in found.notes:
            out.print(f"note: {sentence}", markup=False, highlight=False, soft_wrap=True)
    say(f"{len(found.records)} records, {len(found.problems)} problems")
    raise typer.Exit(bool(found.problems))
