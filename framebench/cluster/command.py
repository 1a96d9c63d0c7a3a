"""Commands for many machines: `plan | collect | check-results`."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from framebench.cli.measuring import Blocks, MemoryLimit, Threads, TimeLimit, Turns, make_request
from framebench.cli.shared import (
    MACHINES,
    AsJson,
    Env,
    ProfileOption,
    ResultsOption,
    Selectors,
    app,
    check_writable,
    choose_cases,
    echo,
    end_command,
    fail,
    out,
    say,
)
from framebench.cluster import units
from framebench.cluster.collect import NODES, collect
from framebench.engine import runner
from framebench.engine.request import RunRequest
from framebench.records import provenance
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.suite.sequences import drop_duplicates


@app.command(rich_help_panel=MACHINES)
def plan(
    selectors: Selectors = None,
    profile: ProfileOption = None,
    results: ResultsOption = runner.RESULTS,
    blocks: Blocks = 1,
    rounds: Turns = runner.Options.rounds,
    threads: Threads = 1,
    time_limit: TimeLimit = 900.0,
    memory_limit: MemoryLimit = None,
    env: Env = None,
    shell: Annotated[
        bool,
        typer.Option(
            "--shell", help="Print one command per line, for GNU parallel, Snakemake or Kubernetes."
        ),
    ] = False,
) -> None:
    """List what `framebench run` would measure, as units that several machines can share.

    A unit is one block of one group of cases. Finished units are left out.
    """
    request = make_request(
        selectors, profile, blocks, rounds, threads, time_limit, memory_limit, env
    )
    cases = choose_cases(list(request.selectors), [], request.profile)
    all_units = units.make_units(request, cases)
    unfinished = units.select_unfinished(all_units, results, provenance.name_code())
    if shell:
        path = shutil.which(sys.argv[0])
        program = str(Path(path).absolute()) if path else "framebench"
        for unit in unfinished:
            echo(units.make_shell_line(unit, program, results.absolute()))
    else:
        table = Table("block", "cases", box=None)
        for unit in unfinished:
            table.add_row(str(unit.block), unit.selectors[0])
        out.print(table)
    say(
        f"to run: {format_count(len(unfinished), 'unit')}, "
        f"done: {len(all_units) - len(unfinished)}; "
        "run one at a time on a machine, and nothing else next to it"
    )


@app.command("collect", rich_help_panel=MACHINES)
def collect_(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", exists=True, file_okay=False, help="Results folders."),
    ],
    results: Annotated[
        Path, typer.Option(file_okay=False, help="The folder to add them to.")
    ] = runner.RESULTS,
    machine: Annotated[
        str | None,
        typer.Option(help="One name for the machine of all records in the target folder."),
    ] = None,
    apart: Annotated[
        bool,
        typer.Option("--apart", help="Keep machines of equal hardware apart, to compare them."),
    ] = False,
) -> None:
    """Add the records of several results folders to one.

    Records that are already there are skipped.

    Machines of equal hardware get one name, and their blocks count together. Records of one
    measurement that differ are kept aside, and shown.
    """
    if machine and apart:
        fail("--machine gives one name, and --apart keeps several: one of them at a time", 2)
    report = collect(folders, results, machine, apart, say=say)
    for name, nodes in sorted(report.machines.items()):
        if nodes != {name}:  # a machine that keeps its name needs no line
            merged = ""
            if len(nodes) > 1 and not machine:
                merged = "; of equal hardware, they count as one machine (--apart keeps them apart)"
            say(f"machine {name} has the records of {', '.join(sorted(nodes))}{merged}")
    for sentence in (*report.conflicts, *report.unreadable):
        say(sentence)
    echo(
        f"{format_count(len(report.added), 'record')} added, {report.present} known, "
        f"{format_count(len(report.conflicts), 'conflict')}, {len(report.unreadable)} unreadable: "
        f"{results}"
    )
    if report.answers:
        echo(f"{report.answers} searches and results of probes added")
    end_command(succeeded=not (report.conflicts or report.unreadable))


@app.command("check-results", rich_help_panel=MACHINES)
def check_results(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="A results folder.")
    ],
    as_json: AsJson = False,
) -> None:
    """Check whether somebody's records are consistent. Nothing of theirs is executed."""
    from framebench.cluster.checks import check

    report = check(folder)
    if as_json:
        echo(
            json.dumps(
                {
                    "records": len(report.records),
                    "problems": report.problems,
                    "notes": report.notes,
                },
                indent=1,
            )
        )
    else:
        for sentence in report.problems:
            out.print(f"NO  {sentence}", markup=False, highlight=False, soft_wrap=True)
        for sentence in report.notes:
            out.print(f"note: {sentence}", markup=False, highlight=False, soft_wrap=True)
    problems = format_count(len(report.problems), "problem")
    say(f"{format_count(len(report.records), 'record')}, {problems}")
    end_command(succeeded=not report.problems)


def run_on_slurm(
    request: RunRequest, cases: list[Case], results: Path, settings: list[str]
) -> list[str]:
    """Measure on machines of Slurm, and add their records to the results folder in the end.

    Until then the records lie in folders below it. Returns the status of each record that was
    added, and `crashed` for each unit that is not done and for each conflict.
    """
    from framebench.cluster import slurm

    sbatch_settings = parse_settings(settings)
    all_units = units.make_units(request, cases)
    results = results.absolute()
    check_writable(results / NODES).mkdir(parents=True, exist_ok=True)
    frameworks = drop_duplicates(case.framework for case in cases)
    unfinished = slurm.measure(all_units, slurm.Jobs(results, sbatch_settings, say), frameworks)
    return collect_nodes(all_units, unfinished, results)


def run_on_gpus(request: RunRequest, cases: list[Case], results: Path) -> list[str]:
    """Measure on all GPUs of this machine, and add their records to the results folder in the end.

    Returns the status of each record that was added, and `crashed` for each unit that is not done
    and for each conflict. Raises SetupError if there is no GPU.
    """
    from framebench.cluster import gpus

    if request.env is None:
        fail(
            "--on gpus needs an interpreter whose frameworks use the GPU, as the pinned builds are "
            "for the CPU: add --env installed, or --env PYTHON",
            2,
        )
    all_units = units.make_units(request, cases)
    check_writable(results / NODES).mkdir(parents=True, exist_ok=True)
    unfinished = gpus.measure(all_units, gpus.list_gpus(), results, say)
    return collect_nodes(all_units, unfinished, results)


def collect_nodes(
    all_units: list[RunRequest], unfinished: list[RunRequest], results: Path
) -> list[str]:
    """Add the records of all machines below a results folder to it, and print what is not done.

    Returns the status of each record that was added, and `crashed` for each unit that is not done
    and for each conflict.
    """
    report = collect([results], results, say=say)
    done_count = len(all_units) - len(unfinished)
    added = format_count(len(report.added), "record was", "records were")
    say(f"{done_count} of {len(all_units)} units are done, {added} added to {results}")
    for sentence in (*report.conflicts, *report.unreadable):
        say(sentence)
    for unit in unfinished:
        say(f"not done: {unit.session_name}")
    statuses: list[str] = [record.status for record in report.added]
    crashed_count = len(unfinished) + len(report.conflicts)
    return statuses + ["crashed"] * crashed_count


def parse_settings(settings: list[str]) -> dict[str, str | int]:
    """Return the values of sbatch's settings by name, from texts such as `partition=cpu`.

    Ends the command if one is invalid.
    """
    values: dict[str, str | int] = {}
    for setting in settings:
        if not re.fullmatch(r"\w+=.+", setting):
            fail(f"--slurm {setting!r} is no NAME=VALUE, such as partition=cpu", 2)
        name, value = setting.split("=", 1)
        values[name] = int(value) if value.isdigit() else value
    return values
