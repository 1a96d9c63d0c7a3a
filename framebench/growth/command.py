"""Memory from step to step: `grow`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import MEASURE, AsJson, Env, Results, app, err, fail, measuring, out, say
from framebench.engine import installed, runner
from framebench.growth.measure import NoReadings, followable, followed, obstacle, read
from framebench.growth.record import Growth
from framebench.suite import hypothetical
from framebench.suite.user_file import Fault, list_definitions
from framebench.user_file.opening import open_model

LEAST_STEPS = 52  # framebench.growth.table has the reason, and is imported late
OWN_STEP = "A Python file with `step(adapter)`, which is called in place of the case's own step."


@app.command(rich_help_panel=MEASURE)
def grow(
    case: Annotated[
        str,
        typer.Argument(
            help="workload/framework/scenario/strategy/bN/size, with any batch; or your own model, or a training script"
        ),
    ],
    arguments: Annotated[list[str] | None, typer.Argument(help="After `--`: the arguments of your script.")] = None,
    steps: Annotated[int, typer.Option(min=LEAST_STEPS, help="Steps to read, after the warm-up.")] = 200,
    step: Annotated[Path | None, typer.Option("--step", exists=True, dir_okay=False, help=OWN_STEP)] = None,
    env: Env = None,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Does memory grow from step to step? Prints the bytes that a step adds, and what piles up: objects, storages or programs,
    and where they are made. In a script of your own a step ends when the optimizer steps. Exit code 1: it
    grows; 3: undecided."""
    try:
        if case.endswith(".py") and is_model(Path(case)):
            measured_growth = of_model(Path(case), steps, step, env, results)
        elif case.endswith(".py"):
            measured_growth = of_script(Path(case), arguments or [], steps, step, env, results)
        elif arguments:
            fail(f"{case} is a case, which takes no arguments, such as {arguments[0]!r}", 2)
        else:
            measured_growth = of_case(case, steps, step, env, results)
    except (Fault, NoReadings) as error:
        fail(str(error), 2)
    from framebench.growth import table as growth

    if as_json:
        typer.echo(json.dumps(growth.as_json(measured_growth)))
    else:
        growth.table(measured_growth).terminal(out)
        if measured_growth.kept:
            growth.kept(measured_growth).terminal(out)
    raise typer.Exit({"does not grow": 0, "grows": 1, "undecided": 3}[growth.verdict(measured_growth)])


def announce(steps: int) -> None:
    say(f"{steps} steps are read after a warm-up, and some more are watched; whatever they keep stays in memory until the end")


def of_case(case: str, steps: int, step: Path | None, env: str | None, results: Path) -> Growth:
    """Raises NoReadings."""
    asked = hypothetical.parse_any_batch(case)
    if why := obstacle(asked):  # before an environment is built for nothing
        raise NoReadings(f"{asked.id}: {why}")
    with measuring(results), err.status(asked.id):
        environment = installed.ready([asked.framework], env, say)[asked.framework]
        announce(steps)
        return read(asked, environment, steps, step)


def is_model(file: Path) -> bool:
    """Whether it has what `framebench try` asks for; else it is a script."""
    return file.is_file() and {"model", "batch"} <= list_definitions(str(file)).keys()


def of_model(file: Path, steps: int, step: Path | None, env: str | None, results: Path) -> Growth:
    """Its baseline in training. Raises NoReadings and Fault."""
    with measuring(results), open_model(file, "train", [], 8, env, results) as (cases, environment, _):
        announce(steps)
        return read(cases[0], environment, steps, step)


def of_script(script: Path, arguments: list[str], steps: int, step: Path | None, env: str | None, results: Path) -> Growth:
    """Raises NoReadings."""
    if step:
        raise NoReadings(f"--step is called in place of a case's step, and {script} makes its own")
    framework = followable(script)
    with measuring(results), err.status(script.name):
        environment = installed.ready([framework], env, say)[framework]
        announce(steps)
        return followed(script, arguments, environment, steps)
