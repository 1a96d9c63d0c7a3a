"""The command that names the release of a framework in which a case changed: `versions bisect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from framebench.cli.shared import AsJson, Results, err, fail, out, say, session
from framebench.engine import releases, runner
from framebench.engine.progress import CaseProgress
from framebench.engine.session import alone
from framebench.records.pins import pinned_version
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from framebench.suite.user_file import Fault
from framebench.user_file.opening import open_model
from framebench.versions import bisect as search
from framebench.versions import planned
from framebench.versions.bisected_record import FLOOR, Bisected
from framebench.versions.command import fraction, versions_app

CODES = {"found": 0, "no change": 1, "not measured": 1, "one of several": 3, "undecided": 3}


@versions_app.command()
def bisect(
    first: Annotated[str, typer.Argument(help="The older release, such as 0.9.2.")],
    last: Annotated[str, typer.Argument(help="The newer release.")],
    case: Annotated[str, typer.Argument(help="Such as unet3d/jax/train/fp32/b4/cpu, or your own file: its baseline.")],
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
    batch: Annotated[int, typer.Option(min=1, help="Of a file of your own.")] = 8,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Find the first release in which a case's peak memory changed. An interrupted search resumes.

    With --device: in which the plan for a device that is not here changed.

    Exit code 1: nothing changed, or no two releases could be measured; 3: several releases may be the first, or noise hides it.
    """
    pinned_version(framework)
    minimum = fraction(threshold) or 0.0
    if minimum < FLOOR:
        fail(f"--threshold {threshold} is less than equal processes differ by: at least {FLOOR:.1%}", 2)
    search_for = Search(first, last, framework, "instructions" if instructions else "peak", minimum, processes, keep)
    if case.endswith(".py"):
        if device is not None:
            fail(f"--device takes the suite's cases, and {case} is a file: `framebench try {case} --device {device}`", 2)
        return of_file(Path(case), batch, search_for, results, as_json)
    asked = parse(case)
    search_for.check(asked)
    if device is None and (why := runner.unsupported(asked)):
        fail(f"{asked.id}: {why}", 2)
    names = search_for.release_names()
    if device is not None:
        return _told(
            search.answer_of(asked, "peak", minimum, names, planned.measure(asked.id, device, results), device), as_json
        )
    folder = results / "bisect"  # records of their own: no table of the suite is to have them
    with alone(results):
        answer = search_for.made(asked, folder, names)
    _told(answer, as_json)


def of_file(file: Path, batch: int, search_for: Search, results: Path, as_json: bool) -> None:
    """The baseline in training of a user's own model, which the pinned release computes right first."""
    names = search_for.release_names()
    try:
        with alone(results), open_model(file, "train", [], batch, None, results) as (cases, _, where):
            search_for.check(cases[0])
            answer = search_for.made(cases[0], where / "bisect", names)
    except Fault as error:
        fail(str(error), 2)
    _told(answer, as_json)


class Search(NamedTuple):
    """What is asked of the releases between two of them."""

    first: str
    last: str
    framework: str
    quantity: search.Asked
    minimum: float
    processes: int
    keep: bool

    def check(self, asked: Case) -> None:
        """Ends the command for a case that is not of the framework, or not of one process."""
        if asked.framework != self.framework:
            fail(f"{asked.id} is a case of {asked.framework}, not of {self.framework}", 2)
        if asked.ranks > 1:
            fail(f"{asked.id}: bisect measures a single process, and not one of several ranks", 2)

    def release_names(self) -> list[str]:
        """Which is said."""
        names = releases.between(self.framework, self.first, self.last, releases.listed(self.framework))
        say(f"{len(names)} releases: {', '.join(names)}")
        return names

    def made(self, asked: Case, folder: Path, names: list[str]) -> Bisected:
        """Measured as far as it takes; another threshold reads the same values."""
        title = " ".join(["bisect", asked.id, self.first, self.last, self.quantity, str(self.processes)])
        most = self.processes * (2 + len(names).bit_length())  # both ends, and what halving takes
        with session(folder, title) as opened, CaseProgress([asked], folder, err, most, opened.id) as progress:
            bench = search.Bench(asked, self.quantity, opened.id, folder, say, self.keep, self.processes, progress)
            return search.bisect(bench, names, self.minimum)


def _told(answer: Bisected, as_json: bool) -> None:
    """Print it; ends the command with the answer's exit code."""
    from framebench.versions import bisected

    if as_json:
        typer.echo(json.dumps(answer.model_dump(mode="json"), indent=1))
    else:
        bisected.table(answer).terminal(out)
    raise typer.Exit(CODES[answer.outcome])
