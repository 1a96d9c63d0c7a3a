"""Commands on versions of a framework: `versions run | compare`."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import (
    MEASURE,
    MOST_S,
    AsJson,
    Machines,
    Profile,
    Results,
    Rounds,
    app,
    echo,
    err,
    fail,
    find_machines,
    open_session,
    out,
    report_failures,
    say,
)
from framebench.engine import environments, releases, runner
from framebench.engine.progress import CaseProgress
from framebench.records import provenance
from framebench.records.record import Record
from framebench.versions import measure as versions
from framebench.versions import own

versions_app = typer.Typer(
    no_args_is_help=True, help="Did an upgrade of the framework cost memory or time?"
)
app.add_typer(versions_app, name="versions", rich_help_panel=MEASURE)

Threshold = Annotated[
    str | None,
    typer.Option(
        help="The smallest difference that matters, such as 5%. Default: each quantity's own."
    ),
]


@versions_app.command()
def run(
    framework: Annotated[str, typer.Option(help="Such as jax.")],
    selectors: Annotated[
        list[str] | None, typer.Argument(help="Cases. Default: a few usual ones.")
    ] = None,
    profile: Profile = None,
    named_versions: Annotated[
        list[str] | None,
        typer.Option("--version", help="Any release; may be repeated. Default: all pinned ones."),
    ] = None,
    blocks: Annotated[
        int, typer.Option(min=1, help="Number of blocks per case.")
    ] = versions.BLOCKS,
    rounds: Rounds = runner.Options.rounds,
    results: Results = runner.RESULTS,
    threads: Annotated[int, typer.Option(min=1, help="1 pins the timing worker to one core.")] = 1,
    time_limit: Annotated[
        float, typer.Option(min=0.01, max=MOST_S, help="Seconds for each of a case's two workers.")
    ] = 900.0,
    device: Annotated[
        str | None,
        typer.Option(
            help="Plan for a device that is not here, such as h100-80gb, and measure nothing."
        ),
    ] = None,
) -> None:
    """Measure the same cases in several versions, taking turns in the same blocks.

    An interrupted run resumes.

    A release that is not pinned is installed with the packages of the pinned one as far as they go
    together, and kept.

    Exit code 1: a case was wrong, crashed, or ran out of time. With --device: what releases plan
    for a device that is not here. For JAX the last eight, unless some are named by --version. Exit
    code 3: a case has no plan. Without cases and profile: training in fp32 and with checkpoints,
    evaluation, and a 3-D convolution in bf16.
    """
    if device is not None:
        from framebench.versions import planned  # imports pandas

        raise typer.Exit(planned.run(framework, named_versions, selectors or [], device, results))
    matrix = versions.choose_versions(framework, named_versions)
    options = runner.Options(
        profile=profile,
        threads=threads,
        rounds=rounds,
        time_limit_s=time_limit,
        cold_blocks=versions.COLD_BLOCKS,
    )
    able = []
    for case in versions.select_cases(framework, selectors, profile):
        obstacle = runner.explain_unsupported(case)
        if obstacle:
            say(f"{case.id}: unsupported: {obstacle}")
        else:
            able.append(case)
    if not able:
        fail("none of these cases can run here; framebench list --strategies has the reasons", 2)
    title = " ".join(
        [
            "versions run",
            framework,
            *matrix,
            str(blocks),
            *(selectors or []),
            profile or "",
            str(options),
        ]
    )
    with open_session(results, title) as opened:
        ready = {
            version: releases.ensure_release(framework, version, "", (), say) for version in matrix
        }
        for environment in ready.values():
            environments.warm(environment, profile or "quick", say)
        with CaseProgress(able, results, err, blocks * len(matrix), opened.id) as progress:
            statuses = versions.measure(able, ready, blocks, opened.id, options, results, progress)
    for old, new in pairwise(matrix):
        say(f"framebench versions compare {framework}=={old} {framework}=={new}")
    raise typer.Exit(report_failures(statuses, "measurements"))


@versions_app.command("compare")
def compare_(
    base: Annotated[str, typer.Argument(help="The older release, such as jax==0.9.2.")],
    change: Annotated[str, typer.Argument(help="The newer release, such as jax==0.10.2.")],
    selectors: Annotated[
        list[str] | None,
        typer.Argument(help="Cases, with --device; or your own file, which is measured now."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Compare plans for a device that is not here, such as h100-80gb."),
    ] = None,
    machine: Machines = None,
    threshold: Threshold = None,
    batch: Annotated[int, typer.Option(min=1, help="Of a file of your own.")] = 8,
    scenario: Annotated[str, typer.Option(help="Of a file of your own: train or eval.")] = "train",
    strategies: Annotated[
        str | None, typer.Option(help="Of a file of your own. Default: its baseline.")
    ] = None,
    blocks: Annotated[int, typer.Option(min=1, help="Of a file of your own.")] = 3,
    rounds: Annotated[
        int, typer.Option(min=0, help="Of a file of your own. 0: memory only.")
    ] = runner.Options.rounds,
    results: Results = provenance.READABLE,
    as_json: AsJson = False,
) -> None:
    """Compare every case of which both versions have records.

    Exit code 1: a regression; 3: too few blocks to tell.

    A regression that requirements/versions/accepted.toml has is listed as known, and no failure.

    A file of your own is measured in both versions first, in the same blocks.

    With --device: compare the plans of both releases for a device that is not here. Exit code 3: a
    case has no plan.
    """
    named = selectors or []
    files = [Path(name) for name in named if name.endswith(".py")]
    if files:
        file = files[0]
        if device is not None or len(named) > 1:
            fail(
                f"compare takes {file} alone, and no --device: `framebench try {file} "
                "--device NAME` is for that",
                2,
            )
        named_strategies = strategies.split(",") if strategies else []
        request = own.FileRequest(file, batch, scenario, named_strategies, blocks, rounds)
        if results == provenance.PUBLISHED:  # into an installed package nothing is written
            results = runner.RESULTS
        records = own.measure(base, change, request, results)
        return judge(records, base, change, threshold, results, as_json)
    if device is not None:
        from framebench.versions import planned  # imports pandas

        code = planned.compare_releases(
            base, change, named, device, results, parse_share(threshold), as_json
        )
        raise typer.Exit(code)
    if named:
        fail(
            "cases are named with --device; without it every case counts that both versions "
            "have records of",
            2,
        )
    from framebench.analysis.results import Results as Folder

    folder = Folder(results)

    def has_both(name: str) -> bool:
        return {base, change} <= measured_releases(folder.get_records(name))

    machines = find_machines(folder, machine, has_both)
    records = [record for record in folder.records if record.provenance.machine in machines]
    judge(records, base, change, threshold, results, as_json)


def judge(
    records: list[Record],
    base: str,
    change: str,
    threshold: str | None,
    results: Path,
    as_json: bool,
) -> None:
    """Print a verdict on each quantity; ends the command with the answer's exit code."""
    from framebench.explain.table import load_causes
    from framebench.versions import judge as rule
    from framebench.versions import table
    from framebench.versions.accepted import MalformedEntry, read_accepted, split_regressions
    from framebench.versions.bisection_table import read_saved

    try:
        rows = rule.compare_versions(records, base, change, parse_share(threshold))
        regressions, known = split_regressions(rows, read_accepted())
    except (rule.UnknownVersion, MalformedEntry) as error:
        fail(str(error), 2)
    if not rows:
        fail(
            f"no case has records of both {base} and {change}; measure them in turn: "
            "framebench versions run",
            2,
        )
    if as_json:
        echo(json.dumps([row.as_dict() for row in rows], indent=1))
    else:
        say(table.describe_changes(rows))
        is_one_case = len({row.case for row in rows}) == 1  # then all that was read is shown
        folded = () if is_one_case else table.FOLDED
        table.make_table(rows, load_causes(results), folded).terminal(out)
    for row, reason in known:
        say(f"known regression: {row.case}, {row.quantity}: {reason}")
    if as_json:  # without it the table has them
        for row in regressions:
            change_text = "" if row.ratio is None else f" {row.ratio - 1:+.1%}"
            say(f"regression: {row.case}, {row.quantity}{change_text} ({row.machine})")
    if regressions:
        say(table.describe_release(regressions, read_saved(results)))
        raise typer.Exit(1)
    if all(row.verdict == rule.FEW for row in rows):
        fail(
            "too few blocks for any verdict; measure the versions in turn: framebench versions run",
            3,
        )


def measured_releases(records: list[Record]) -> set[str]:
    """Return the releases that records are of, such as `jax==0.9.2`."""
    return {f"{record.parsed.framework}=={record.framework_version}" for record in records}


def parse_share(text: str | None) -> float | None:
    """Return `5%` and `0.05` as 0.05. Raises typer.BadParameter."""
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%"))
    except ValueError:
        share = -1.0
    if text.endswith("%"):
        share /= 100
    if not 0 <= share < 1:
        raise typer.BadParameter(f"{text!r} is no threshold; write for instance 5%")
    return share
