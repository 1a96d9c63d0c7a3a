"""Commands on versions of a framework: `versions run | compare`."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import (
    MEASURE,
    AsJson,
    Machines,
    Profile,
    Results,
    Rounds,
    app,
    broken,
    err,
    fail,
    machines_of,
    out,
    say,
    session,
)
from framebench.engine import environments, releases, runner
from framebench.engine.progress import CaseProgress
from framebench.records.record import Record
from framebench.versions import measure as versions
from framebench.versions import own

versions_app = typer.Typer(no_args_is_help=True, help="Did an upgrade of the framework cost memory or time?")
app.add_typer(versions_app, name="versions", rich_help_panel=MEASURE)

Threshold = Annotated[
    str | None, typer.Option(help="The smallest difference that matters, such as 5%. Default: each quantity's own.")
]


@versions_app.command()
def run(
    framework: Annotated[str, typer.Option(help="Such as jax.")],
    selectors: Annotated[list[str] | None, typer.Argument(help="Cases. Default: a few usual ones.")] = None,
    profile: Profile = None,
    version: Annotated[list[str] | None, typer.Option(help="Any release; may be repeated. Default: all pinned ones.")] = None,
    blocks: Annotated[int, typer.Option(min=1, help="Number of blocks per case.")] = versions.BLOCKS,
    rounds: Rounds = runner.Options.rounds,
    results: Results = runner.RESULTS,
    threads: Annotated[int, typer.Option(min=1, help="1 pins the timing worker to one core.")] = 1,
    time_limit: Annotated[float, typer.Option(min=0.01, help="Seconds for each of a case's two workers.")] = 900.0,
    device: Annotated[
        str | None, typer.Option(help="Plan for a device that is not here, such as h100-80gb, and measure nothing.")
    ] = None,
) -> None:
    """Measure the same cases in several versions, taking turns in the same blocks. An interrupted run resumes.

    A release that is not pinned is installed with the packages of the pinned one as far as they go together, and kept.

    Exit code 1: a case was wrong, crashed, or ran out of time.
    With --device: what releases plan for a device that is not here. For JAX the last eight, unless some are
    named by --version. Exit code 3: a case has no plan.
    Without cases and profile: training in fp32 and with checkpoints, evaluation, and a 3-D convolution in bf16.
    """
    if device is not None:
        from framebench.versions import planned  # imports pandas

        raise typer.Exit(planned.run(framework, version, selectors or [], device, results))
    matrix, chosen = versions.matrix(framework, version), versions.selection(framework, selectors, profile)
    options = runner.Options(profile=profile, threads=threads, rounds=rounds, time_limit_s=time_limit)
    able = [c for c in chosen if not runner.unsupported(c)]
    for case in chosen:
        if why := runner.unsupported(case):
            say(f"{case.id}: unsupported: {why}")
    if not able:
        fail("none of these cases can run here; framebench list --strategies has the reasons", 2)
    asked = " ".join(["versions run", framework, *matrix, str(blocks), *(selectors or []), profile or "", str(options)])
    with session(results, asked) as opened:
        ready = {v: releases.beside(framework, v, "", (), say) for v in matrix}
        for environment in ready.values():
            environments.warm(environment, profile or "quick", say)
        with CaseProgress(able, results, err, blocks * len(matrix), opened.id) as progress:
            statuses = versions.measure(able, ready, blocks, opened.id, options, results, progress)
    for old, new in pairwise(matrix):
        say(f"framebench versions compare {framework}=={old} {framework}=={new}")
    raise typer.Exit(broken(statuses, "measurements"))


@versions_app.command("compare")
def compare_(
    base: Annotated[str, typer.Argument(help="The older release, such as jax==0.9.2.")],
    change: Annotated[str, typer.Argument(help="The newer release, such as jax==0.10.2.")],
    selectors: Annotated[
        list[str] | None, typer.Argument(help="Cases, with --device; or your own file, which is measured now.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Compare plans for a device that is not here, such as h100-80gb.")] = None,
    machine: Machines = None,
    threshold: Threshold = None,
    batch: Annotated[int, typer.Option(min=1, help="Of a file of your own.")] = 8,
    scenario: Annotated[str, typer.Option(help="Of a file of your own: train or eval.")] = "train",
    strategies: Annotated[str | None, typer.Option(help="Of a file of your own. Default: its baseline.")] = None,
    blocks: Annotated[int, typer.Option(min=1, help="Of a file of your own.")] = 3,
    rounds: Annotated[int, typer.Option(min=0, help="Of a file of your own. 0: memory only.")] = runner.Options.rounds,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Compare every case of which both versions have records. Exit code 1: a regression; 3: too few blocks to tell.

    A file of your own is measured in both versions first, in the same blocks.

    With --device: compare the plans of both releases for a device that is not here. Exit code 3: a case has no plan.
    """
    file = next((Path(text) for text in selectors or () if text.endswith(".py")), None)
    if file is not None:
        if device is not None or len(selectors or ()) > 1:
            fail(f"compare takes {file} alone, and no --device: `framebench try {file} --device NAME` is for that", 2)
        named = strategies.split(",") if strategies else []
        records = own.measure(base, change, own.Asked(file, batch, scenario, named, blocks, rounds), results)
        return judge(records, base, change, threshold, results, as_json)
    if device is not None:
        from framebench.versions import planned  # imports pandas

        raise typer.Exit(planned.compare(base, change, selectors or [], device, results, fraction(threshold), as_json))
    if selectors:
        fail("cases are named with --device; without it every case counts that both versions have records of", 2)
    from framebench.analysis.results import Results as Folder

    folder = Folder(results)
    machines = machines_of(folder, machine, lambda name: {base, change} <= measured_releases(folder.of_machine(name)))
    judge([r for r in folder.records if r.provenance.machine in machines], base, change, threshold, results, as_json)


def judge(machine_records: list[Record], base: str, change: str, threshold: str | None, results: Path, as_json: bool) -> None:
    """Print a verdict on each quantity; ends the command with the answer's exit code."""
    from framebench.explain.table import causes
    from framebench.versions import judge as rule
    from framebench.versions import table as words

    try:
        rows = rule.rows_of(machine_records, base, change, fraction(threshold))
    except rule.UnknownVersion as error:
        fail(str(error), 2)
    if not rows:
        fail(f"no case has records of both {base} and {change}; measure them in turn: framebench versions run", 2)
    if as_json:
        typer.echo(json.dumps([r._asdict() | {"conditions": r.conditions._asdict()} for r in rows], indent=1))
    else:
        say(words.in_words(rows))
        few = len({row.case for row in rows}) == 1  # then all that was read is shown
        words.table(rows, causes(results), () if few else words.FOLDED).terminal(out)
    worse = [r for r in rows if r.verdict == rule.REGRESSION]
    for r in worse:
        more = f" {r.ratio - 1:+.1%}" if r.ratio is not None else ""
        say(f"regression: {r.case}, {r.quantity}{more} ({r.machine})")
    if worse:
        raise typer.Exit(1)
    if all(r.verdict == rule.FEW for r in rows):
        fail("too few blocks for any verdict; measure the versions in turn: framebench versions run", 3)


def measured_releases(records: list[Record]) -> set[str]:
    """Return the releases that records are of, such as `jax==0.9.2`."""
    return {f"{record.parsed.framework}=={record.framework_version}" for record in records}


def fraction(text: str | None) -> float | None:
    """`5%` and `0.05` as 0.05. Raises typer.BadParameter."""
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise typer.BadParameter(f"{text!r} is no threshold; write for instance 5%")
    return share
