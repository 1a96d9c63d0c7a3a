"""The command that makes asv's history of framework releases: `versions publish`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import Results, fail, say
from framebench.engine import runner
from framebench.versions.command import versions_app


@versions_app.command()
def publish(
    config: Annotated[
        Path | None,
        typer.Option(
            help="asv's configuration. Default: asv.releases.json.", dir_okay=False, exists=True
        ),
    ] = None,
    results: Results = runner.RESULTS,
) -> None:
    """Show by asv which release of a framework regressed, from the records.

    Writes a git repository with a commit and a tag for each release, and asv's results from the
    records. Then runs `asv publish`, and prints the regressions that it lists. Exit code 1: nothing
    was measured in two releases.
    """
    from framebench.analysis.results import Results as Folder
    from framebench.versions import asv_history as history

    file = config or history.CONFIG
    try:
        releases = history.write(Folder(results).records, file, history.read_plans(results))
        regressions = history.publish(file)
    except history.NoHistoryError as error:
        fail(str(error), 1)
    say(f"{len(releases)} releases from {releases[0].tag} to {releases[-1].tag}")
    say(f"{len(regressions)} regressions" if regressions else "no regression")
    last_step = ""
    for found in regressions:
        step = f"{found.before} to {found.after}, on {found.machine}:"
        if step != last_step:
            say(step)
            last_step = step
        say(f"  {found.change:+.1%} {found.benchmark}")
    say(f"asv --config {file.name} preview shows it")
