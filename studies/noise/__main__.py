"""Show the noise study's tables, or measure it: `python -m studies.noise --help`."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from framebench.analysis.rendering import Table
from framebench.analysis.results import Results
from framebench.cli.shared import err, open_session, say
from framebench.engine import environments, runner
from framebench.engine.blocks import measure as measure_blocks
from framebench.engine.progress import CaseProgress
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import DEFAULT_SIZE, Case
from studies.noise import other_machine, plan, repeatability, verdicts, widths
from studies.noise.planting import PlantingRun
from studies.tables import IntoReadme, show_tables

STUDY = Path(__file__).parent
app = typer.Typer(add_completion=False)


class Condition(StrEnum):
    """The state of the machine that a study is measured in."""

    QUIET = "quiet"
    LOADED = "loaded"


class Part(StrEnum):
    """What is compared."""

    TIME = "time"
    MEMORY = "memory"


def make_tables() -> list[Table]:
    """Return the tables of the study's own records, then those of the published ones."""
    published = Results(runner.RESULTS)
    return [
        *verdicts.comparisons(),
        repeatability.comparison(published.records),
        widths.comparison(published.records),
        *other_machine.comparisons(published.records, published.machines),
    ]


@app.callback(invoke_without_command=True)
def show(context: typer.Context, readme: IntoReadme = False) -> None:
    """Print the tables, or write those that README.md shows into it."""
    if context.invoked_subcommand is None:
        show_tables(make_tables(), STUDY, readme)


@app.command()
def measure(
    condition: Annotated[
        Condition, typer.Argument(help="`loaded`: next to one busy process per core.")
    ],
    framework: Annotated[
        list[str] | None, typer.Option(help="May be repeated. Default: all.")
    ] = None,
    size: Annotated[
        str, typer.Option(help="Size of the long steps: tiny, cpu or full.")
    ] = DEFAULT_SIZE,
    blocks: Annotated[int, typer.Option(min=1, help="Number of blocks.")] = plan.BLOCKS,
    part: Annotated[Part | None, typer.Option(help="Default: both in turn.")] = None,
    results: Annotated[Path | None, typer.Option(help="Folder of the records.")] = None,
) -> None:
    """Measure comparisons whose answer is known. An interrupted study resumes where it stopped."""
    frameworks = framework or FRAMEWORKS
    timed_cases = select_supported(plan.cases(size), frameworks)
    folder = results or Path(f".study-{condition}")
    folder.mkdir(parents=True, exist_ok=True)
    scripts = folder.absolute() / ".planted"
    command = ["study", condition, size, str(blocks), *filter(None, [part]), *(framework or ())]
    with open_session(folder, " ".join(command)) as opened:
        ready = {name: environments.ensure(name, say=say) for name in frameworks}
        busy_processes = len(os.sched_getaffinity(0)) if condition == Condition.LOADED else 0
        turns = blocks * (plan.EQUAL + len(plan.SPINS))
        with (
            plan.busy(busy_processes),
            CaseProgress(timed_cases, folder, err, turns) as progress,
            PlantingRun(opened.id, runner.Options(memory=False), folder, progress) as run,
        ):
            if part != Part.MEMORY:
                measure_blocks(plan.timed(timed_cases, ready, scripts), run, blocks)
            if part != Part.TIME:
                run.options = runner.Options(rounds=1)  # of these only the memory matters
                memory_cases = select_supported(plan.larger_cases(size), frameworks)
                measure_blocks(plan.held(memory_cases, ready, scripts), run)
    say(f"next: python -m studies.noise keep {condition} {folder}; python -m studies.noise")


def select_supported(cases: list[Case], frameworks: list[str] | tuple[str, ...]) -> list[Case]:
    """Return the cases of these frameworks that can run on this machine."""
    return [c for c in cases if c.framework in frameworks and not runner.explain_unsupported(c)]


@app.command()
def keep(
    condition: Annotated[str, typer.Argument(help="Name of the data file, such as quiet.")],
    folder: Annotated[Path, typer.Argument(help="Results folder that `measure` filled.")],
) -> None:
    """Collect the records of a measured study in one file below data/."""
    print(verdicts.gather(folder, condition))


if __name__ == "__main__":
    app()
