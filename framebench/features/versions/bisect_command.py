"""The command that names the release of a framework in which a case changed: `versions bisect`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from framebench.cli.shared import AsJson, Results, err, fail, out, say, session
from framebench.engine import releases, runner
from framebench.engine.progress import CaseProgress
from framebench.engine.session import alone
from framebench.features.versions import bisect as search
from framebench.features.versions import planned
from framebench.features.versions.bisected_record import FLOOR, Bisected
from framebench.features.versions.command import fraction, versions_app
from framebench.records.pins import pinned_version
from framebench.suite.selectors import parse

CODES = {"found": 0, "no change": 1, "not measured": 1, "one of several": 3, "undecided": 3}


@versions_app.command()
def bisect(
    first: Annotated[str, typer.Argument(help="The older release, such as 0.9.2.")],
    last: Annotated[str, typer.Argument(help="The newer release.")],
    case: Annotated[str, typer.Argument(help="Such as unet3d/jax/train/fp32/b4/cpu.")],
    framework: Annotated[str, typer.Option(help="Such as jax.")],
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Compare instructions per step instead of peak memory.")
    ] = False,
    threshold: Annotated[str, typer.Option(help="The smallest change that matters.")] = "1%",
    processes: Annotated[int, typer.Option(min=1, help="Processes of each release. Their differences are its noise.")] = (
        search.PROCESSES
    ),
    keep: Annotated[bool, typer.Option("--keep", help="Keep the environments that were made for it.")] = False,
    device: Annotated[str | None, typer.Option(help="not here, such as h100-80gb: by what is planned for it")] = None,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Find the first release in which a case's peak memory changed. An interrupted search resumes.

    With --device: in which the plan for a device that is not here changed.

    Exit code 1: nothing changed, or no two releases could be measured; 3: several releases may be the first, or noise hides it.
    """
    pinned_version(framework)
    asked = parse(case)
    if asked.framework != framework:
        fail(f"{asked.id} is a case of {asked.framework}, not of {framework}", 2)
    if device is None and (why := runner.unsupported(asked)):
        fail(f"{asked.id}: {why}", 2)
    if asked.ranks > 1:
        fail(f"{asked.id}: bisect measures a single process, and not one of several ranks", 2)
    minimum = fraction(threshold) or 0.0
    if minimum < FLOOR:
        fail(f"--threshold {threshold} is less than equal processes differ by: at least {FLOOR:.1%}", 2)
    release_names = releases.between(framework, first, last, releases.listed(framework))
    say(f"{len(release_names)} releases: {', '.join(release_names)}")
    quantity: search.Asked = "instructions" if instructions else "peak"
    if device is not None:
        return _told(
            search.answer_of(asked, "peak", minimum, release_names, planned.measure(asked.id, device, results), device), as_json
        )
    folder = results / "bisect"  # records of their own: no table of the suite is to have them
    named = " ".join(["bisect", asked.id, first, last, quantity, str(processes)])  # another threshold reads the same values
    most = processes * (2 + len(release_names).bit_length())  # both ends, and what halving takes
    with alone(results), session(folder, named) as opened, CaseProgress([asked], folder, err, most) as progress:
        bench = search.Bench(asked, quantity, opened.id, folder, say, keep, processes, progress)
        answer = search.bisect(bench, release_names, minimum)
    _told(answer, as_json)


def _told(answer: Bisected, as_json: bool) -> None:
    """Print it; ends the command with the answer's exit code."""
    from framebench.features.versions import bisected

    if as_json:
        typer.echo(json.dumps(answer.model_dump(mode="json"), indent=1))
    else:
        bisected.table(answer).terminal(out)
    raise typer.Exit(CODES[answer.outcome])
