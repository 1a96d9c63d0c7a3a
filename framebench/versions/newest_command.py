"""The command that compares each framework's newest release with the pinned one:

`versions newest`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from framebench.cli.shared import (
    AsJson,
    Profile,
    Results,
    Rounds,
    echo,
    err,
    fail,
    open_session,
    out,
    say,
)
from framebench.engine import runner
from framebench.engine.progress import CaseProgress
from framebench.engine.session import alone
from framebench.strategies.strategy import FRAMEWORKS
from framebench.versions import measure as versions
from framebench.versions.accepted import MalformedEntry, read_accepted
from framebench.versions.command import Threshold, parse_share, versions_app

if TYPE_CHECKING:
    from framebench.versions.newest import ReleasePair


@versions_app.command()
def newest(
    frameworks: Annotated[
        list[str] | None, typer.Argument(help="Such as jax. Default: all.")
    ] = None,
    profile: Profile = None,
    blocks: Annotated[
        int, typer.Option(min=1, help="Number of blocks per case.")
    ] = versions.BLOCKS,
    rounds: Rounds = runner.Options.rounds,
    threshold: Threshold = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the environments that were made for it.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            help="Compare plans for a device that is not here, such as "
            "h100-80gb, and measure nothing."
        ),
    ] = None,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Compare each framework's newest release, as the package index lists it, with the pinned
    version, in the same blocks.

    Exit code 1: a regression that is not accepted in requirements/versions/accepted.toml, a case
    that fails under the newest release alone, or no newer release that can be installed; 3: nothing
    could be judged. Nothing is measured where the pinned version is the newest one. Without a
    profile the cases are those of `versions run`. An interrupted comparison goes on where it
    stopped.

    With --device: compare what both releases plan for the training of full sizes on a device that
    is not here. Plans have no noise. Jittor has none.
    """
    from framebench.versions import newest as search
    from framebench.versions.table import make_table

    pairs = [
        search.ReleasePair.of(framework) for framework in dict.fromkeys(frameworks or FRAMEWORKS)
    ]
    if device is not None:
        raise typer.Exit(compare_plans(pairs, device, results, parse_share(threshold), as_json))
    try:
        accepted = tuple(read_accepted())
    except MalformedEntry as error:
        fail(str(error), 2)
    minimum = parse_share(threshold)
    folder = results / search.FOLDER
    options = runner.Options(profile=profile, rounds=rounds, cold_blocks=versions.COLD_BLOCKS)
    verdicts = []
    for pair in pairs:
        if pair.is_current:
            verdict = search.describe_current(pair)
        else:
            cases = versions.select_cases(pair.framework, None, profile)
            able = [case for case in cases if not runner.explain_unsupported(case)]
            title = " ".join(["versions newest", *pair.releases, str(blocks), str(options)])
            bench = search.PairBench(able, blocks, options, folder, say, minimum, keep, accepted)
            with (
                alone(results),
                open_session(folder, title) as opened,
                CaseProgress(able, folder, err, 2 * blocks, opened.id) as progress,
            ):
                verdict = bench.measure(pair, opened.id, progress)
        say(verdict.answer)
        verdicts.append(verdict)
    if as_json:
        echo(json.dumps([verdict.as_dict() for verdict in verdicts], indent=1))
    else:
        for verdict in verdicts:
            if verdict.rows:
                make_table(verdict.rows).terminal(out)
            for row, reason in verdict.known_regressions:
                say(f"known: {row.case}, {row.quantity}: {reason}")
    raise typer.Exit(worst([verdict.exit_code for verdict in verdicts]))


def compare_plans(
    pairs: list[ReleasePair], device: str, results: Path, threshold: float | None, as_json: bool
) -> int:
    """Print what the newest releases plan for a device that is not here, against the pinned ones.

    Returns the exit code.
    """
    from framebench.versions import newest as search
    from framebench.versions import planned  # imports pandas

    codes = [0]
    for pair in pairs:
        if pair.framework not in planned.HOW:
            say(f"{pair.framework} has no plans for a device that is not here")
        elif pair.is_current:
            say(search.describe_current(pair).answer)
        else:
            version = planned.find_installable(pair.framework, (pair.newest, *pair.older), device)
            if version is None:
                codes.append(search.EXIT_CODES["cannot be installed"])
                continue
            installable = replace(pair, newest=version)
            cases = [case.id for case in versions.select_planned(pair.framework)]
            codes.append(
                planned.compare_releases(
                    *installable.releases, cases, device, results, threshold, as_json
                )
            )
    return worst(codes)


def worst(codes: list[int]) -> int:
    """Return the exit code of all frameworks: a regression counts more than what could not be
    judged.
    """
    return 1 if 1 in codes else max(codes)
