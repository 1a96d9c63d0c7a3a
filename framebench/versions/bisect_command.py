"""The command that names the release of a framework in which a case changed: `versions bisect`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from framebench.cli.shared import AsJson, Results, echo, err, fail, open_session, out, say
from framebench.engine import releases, runner
from framebench.engine.progress import CaseProgress
from framebench.engine.session import alone
from framebench.records.pins import find_pinned_version
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from framebench.suite.user_file import Fault
from framebench.user_file.opening import open_model
from framebench.versions.bisect import PROCESSES, Quantity, ReleaseBench, bisect_releases
from framebench.versions.bisection_record import FLOOR, Bisection
from framebench.versions.command import parse_share, versions_app
from framebench.versions.planned import PlanBench

EXIT_CODES = {"found": 0, "no change": 1, "not measured": 1, "one of several": 3, "undecided": 3}


@versions_app.command()
def bisect(
    first: Annotated[str, typer.Argument(help="The older release, such as 0.9.2.")],
    last: Annotated[str, typer.Argument(help="The newer release.")],
    case: Annotated[
        str,
        typer.Argument(
            help="Such as unet3d/jax/train/fp32/b4/cpu, or your own file: its baseline."
        ),
    ],
    framework: Annotated[str, typer.Option(help="Such as jax.")],
    instructions: Annotated[
        bool,
        typer.Option(
            "--instructions", help="Compare instructions per step instead of peak memory."
        ),
    ] = False,
    threshold: Annotated[str, typer.Option(help="The smallest change that matters.")] = "1%",
    processes: Annotated[
        int, typer.Option(min=1, help="Processes of each release. Their differences are its noise.")
    ] = PROCESSES,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the environments that were made for it.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(help="not here, such as h100-80gb: by what is planned for it")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Of a file of your own.")] = 8,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Find the first release in which a case's peak memory changed. An interrupted search resumes.

    With --device: in which the plan for a device that is not here changed.

    Exit code 1: nothing changed, or no two releases could be measured; 3: several releases may be
    the first, or noise hides it.
    """
    find_pinned_version(framework)
    minimum = parse_share(threshold) or 0.0
    if minimum < FLOOR:
        fail(
            f"--threshold {threshold} is less than equal processes differ by: at least {FLOOR:.1%}",
            2,
        )
    quantity: Quantity = "instructions" if instructions else "peak"
    request = BisectionRequest(first, last, framework, quantity, minimum, processes, keep)
    if case.endswith(".py"):
        if device is not None:
            fail(
                f"--device takes the suite's cases, and {case} is a file: `framebench try "
                f"{case} --device {device}`",
                2,
            )
        show(bisect_file(Path(case), batch, request, results), as_json)

    named = parse(case)
    request.check(named)
    obstacle = None if device else runner.explain_unsupported(named)
    if obstacle:
        fail(f"{named.id}: {obstacle}", 2)
    names = request.list_releases()
    if device is not None:
        bench = PlanBench(named.id, device, results)
        show(bisect_releases(named, "peak", minimum, names, bench.measure, device), as_json)
    folder = results / "bisect"  # records of their own: no table of the suite is to have them
    with alone(results):
        answer = request.measure(named, folder, names)
    show(answer, as_json)


def bisect_file(file: Path, batch: int, request: BisectionRequest, results: Path) -> Bisection:
    """Bisect by the baseline in training of a user's own model, which the pinned release computes
    right first.
    """
    names = request.list_releases()
    try:
        with (
            alone(results),
            open_model(file, "train", [], batch, None, results) as (cases, _, folder),
        ):
            request.check(cases[0])
            return request.measure(cases[0], folder / "bisect", names)
    except Fault as error:
        fail(str(error), 2)


@dataclass(frozen=True)
class BisectionRequest:
    """What is asked of the releases between two of them."""

    first: str
    last: str
    framework: str
    quantity: Quantity
    minimum: float
    processes: int
    keep: bool

    def check(self, case: Case) -> None:
        """End the command for a case that is not of the framework, or not of one process."""
        if case.framework != self.framework:
            fail(f"{case.id} is a case of {case.framework}, not of {self.framework}", 2)
        if case.ranks > 1:
            fail(f"{case.id}: bisect measures a single process, and not one of several ranks", 2)

    def list_releases(self) -> list[str]:
        """Return the releases from the first to the last, and say which they are."""
        names = releases.select_between(
            self.framework, self.first, self.last, releases.list_releases(self.framework)
        )
        say(f"{len(names)} releases: {', '.join(names)}")
        return names

    def measure(self, case: Case, folder: Path, names: list[str]) -> Bisection:
        """Measure as many releases as it takes; another threshold reads the same values."""
        title = f"bisect {case.id} {self.first} {self.last} {self.quantity} {self.processes}"
        most = self.processes * (2 + len(names).bit_length())  # both ends, and what halving takes
        with (
            open_session(folder, title) as opened,
            CaseProgress([case], folder, err, most, opened.id) as progress,
        ):
            bench = ReleaseBench(
                case, self.quantity, opened.id, folder, say, self.keep, self.processes, progress
            )
            return bench.bisect(names, self.minimum)


def show(answer: Bisection, as_json: bool) -> NoReturn:
    """Print an answer, and end the command with its exit code."""
    from framebench.versions.bisection_table import make_table

    if as_json:
        echo(json.dumps(answer.model_dump(mode="json"), indent=1))
    else:
        make_table(answer).terminal(out)
    raise typer.Exit(EXIT_CODES[answer.outcome])
