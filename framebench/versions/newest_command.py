"""The command that compares each framework's newest release with the pinned one: `versions newest`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from framebench.cli.shared import AsJson, Profile, Results, Rounds, err, out, say, session
from framebench.engine import runner
from framebench.engine.progress import CaseProgress
from framebench.engine.session import alone
from framebench.strategies.strategy import FRAMEWORKS
from framebench.versions import measure as versions
from framebench.versions.command import Threshold, fraction, versions_app


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
    from framebench.versions.table import table

    pairs = [search.Pair.of(framework) for framework in dict.fromkeys(frameworks or FRAMEWORKS)]
    least, folder = fraction(threshold), results / search.FOLDER
    options = runner.Options(profile=profile, rounds=rounds)
    answers = []
    for pair in pairs:
        if pair.current:
            answers.append(search.current(pair))
        else:
            able = [c for c in versions.selection(pair.framework, None, profile) if not runner.unsupported(c)]
            asked = " ".join(["versions newest", *pair.arms, str(blocks), str(options)])
            bench = search.Bench(able, blocks, options, folder, say, least, keep)
            with (
                alone(results),
                session(folder, asked) as opened,
                CaseProgress(able, folder, err, 2 * blocks, opened.id) as progress,
            ):
                answers.append(bench.answer(pair, opened.id, progress))
        say(answers[-1].said)
    if as_json:
        typer.echo(json.dumps([answer.as_dict() for answer in answers], indent=1))
    for rows in (list(answer.rows) for answer in answers if answer.rows and not as_json):
        table(rows).terminal(out)
    raise typer.Exit(worst([answer.code for answer in answers]))


def worst(codes: list[int]) -> int:
    """A regression in one framework counts more than another that could not be judged."""
    return 1 if 1 in codes else max(codes)
