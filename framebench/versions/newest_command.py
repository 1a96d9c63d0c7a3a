"""The command that compares each framework's newest release with the pinned one: `versions newest`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from framebench.cli.shared import AsJson, Profile, Results, Rounds, err, open_session, out, say
from framebench.engine import runner
from framebench.engine.progress import CaseProgress
from framebench.engine.session import alone
from framebench.strategies.strategy import FRAMEWORKS
from framebench.versions import measure as versions
from framebench.versions.command import Threshold, parse_share, versions_app


@versions_app.command()
def newest(
    frameworks: Annotated[list[str] | None, typer.Argument(help="Such as jax. Default: all.")] = None,
    profile: Profile = None,
    blocks: Annotated[int, typer.Option(min=1, help="Number of blocks per case.")] = versions.BLOCKS,
    rounds: Rounds = runner.Options.rounds,
    threshold: Threshold = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the environments that were made for it.")] = False,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Compare each framework's newest release, as the package index lists it, with the pinned version, in the same blocks.

    Exit code 1: a regression, a case that fails under the newest release alone, or a release that cannot be installed;
    3: nothing could be judged. Nothing is measured where the pinned version is the newest one. Without a profile the cases
    are those of `versions run`. An interrupted comparison goes on where it stopped.
    """
    from framebench.versions import newest as search
    from framebench.versions.table import make_table

    pairs = [search.ReleasePair.of(framework) for framework in dict.fromkeys(frameworks or FRAMEWORKS)]
    minimum = parse_share(threshold)
    folder = results / search.FOLDER
    options = runner.Options(profile=profile, rounds=rounds, cold_blocks=versions.COLD_BLOCKS)
    verdicts = []
    for pair in pairs:
        if pair.is_current:
            verdict = search.describe_current(pair)
        else:
            cases = versions.select_cases(pair.framework, None, profile)
            able = [case for case in cases if not runner.unsupported(case)]
            title = " ".join(["versions newest", *pair.releases, str(blocks), str(options)])
            bench = search.PairBench(able, blocks, options, folder, say, minimum, keep)
            with (
                alone(results),
                open_session(folder, title) as opened,
                CaseProgress(able, folder, err, 2 * blocks, opened.id) as progress,
            ):
                verdict = bench.measure(pair, opened.id, progress)
        say(verdict.answer)
        verdicts.append(verdict)
    if as_json:
        typer.echo(json.dumps([verdict.as_dict() for verdict in verdicts], indent=1))
    else:
        for verdict in verdicts:
            if verdict.rows:
                make_table(verdict.rows).terminal(out)
    raise typer.Exit(worst([verdict.exit_code for verdict in verdicts]))


def worst(codes: list[int]) -> int:
    """Return the exit code of all frameworks: a regression counts more than what could not be judged."""
    return 1 if 1 in codes else max(codes)
