"""The command that says whether memory grows from step to step: `grow`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import (
    MEASURE,
    MOST_S,
    AsJson,
    Env,
    ResultsOption,
    app,
    echo,
    fail,
    lock_for_measuring,
    out,
    say,
    show_progress,
)
from framebench.engine import environments, installed, runner
from framebench.growth import measure
from framebench.growth.measure import NoReadings
from framebench.growth.progress import LEAST_STEPS, STEPS_PER_HALF, WARM_UP, count_steps
from framebench.growth.record import Growth
from framebench.suite import hypothetical
from framebench.suite.user_file import Fault, list_definitions, parse_file
from framebench.user_file.opening import open_model

USER_MODEL_BATCH = 8
EXIT_CODES = {"does not grow": 0, "grows": 1, "undecided": 3}
CASE_HELP = (
    "workload/framework/scenario/strategy/bN/size, with any batch; or your own model, or "
    "a training script"
)
TimeLimit = Annotated[
    float, typer.Option(min=0.01, max=MOST_S, help="Seconds for the process that makes the steps.")
]
STEP_AT_HELP = (
    "A function of your script, each of whose calls is a step; by default its optimizer's step, "
    "in JAX the compiled function"
)
STEP_HELP = "A Python file with `step(adapter)`, which is called in place of the case's own step."


@app.command(rich_help_panel=MEASURE)
def grow(
    case: Annotated[str, typer.Argument(help=CASE_HELP)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="After `--`: the arguments of your script.")
    ] = None,
    steps: Annotated[
        int, typer.Option(min=LEAST_STEPS, help="Steps to read, after the warm-up.")
    ] = 200,
    step: Annotated[
        Path | None, typer.Option("--step", exists=True, dir_okay=False, help=STEP_HELP)
    ] = None,
    step_at: Annotated[str, typer.Option("--step-at", help=STEP_AT_HELP)] = "",
    env: Env = None,
    results: ResultsOption = runner.RESULTS,
    time_limit: TimeLimit = environments.MODULE_LIMIT_S,
    as_json: AsJson = False,
) -> None:
    """Does memory grow from step to step?

    Prints the bytes that a step adds, and what piles up: objects, storages or programs, and where
    they are made. In a script of your own a step ends when the optimizer steps, in JAX when the
    compiled function returns, or where --step-at says. Exit code 1: it grows; 3: undecided.
    """
    file = Path(case)
    try:
        is_script = case.endswith(".py") and not is_model(file)
        check_options(case, is_script, step, step_at, arguments)
        if is_script:
            growth = follow_script(file, arguments or [], steps, step_at, env, results, time_limit)
        elif case.endswith(".py"):
            growth = follow_model(file, steps, step, env, results, time_limit)
        else:
            growth = follow_case(case, steps, step, env, results, time_limit)
    except (Fault, NoReadings) as error:
        fail(str(error), 2)
    from framebench.growth import table

    if as_json:
        echo(json.dumps(table.as_json(growth)))
    else:
        answer = table.describe_growth(growth)
        if answer:
            out.print(answer, markup=False, highlight=False, soft_wrap=True)
        table.tabulate_slopes(growth).terminal(out)
        if table.list_causes(growth):
            table.tabulate_kept(growth).terminal(out)
    raise typer.Exit(EXIT_CODES[table.judge(growth)])


def is_model(file: Path) -> bool:
    """Return whether a file has what `framebench try` asks for; else it is a script."""
    return file.is_file() and {"model", "batch"} <= list_definitions(str(file)).keys()


def check_options(
    case: str, is_script: bool, step: Path | None, step_at: str, arguments: list[str] | None
) -> None:
    """End the command if an option is not for this case, file or script. Raises Fault."""
    if step:
        parse_file(str(step))  # refuses what is no regular file, which would be waited for
    if step_at and not is_script:
        fail(f"--step-at names a function of a script, and {case} is none; see --step", 2)
    if arguments and not is_script:
        fail(f"{case} is no script, and takes no arguments, such as {arguments[0]!r}", 2)
    if step and is_script:
        fail(
            f"--step is called in place of a case's step, and {case} makes its own; --step-at "
            "FUNCTION says which",
            2,
        )


def announce(steps: int) -> None:
    """Say what is about to run, and about how long it takes."""
    say(
        f"{count_steps(steps)} steps: {WARM_UP} of warm-up, {steps} that are read, and "
        f"{2 * STEPS_PER_HALF} that are watched. That takes as long as your own steps and some "
        "seconds more; whatever they keep stays in memory until the end"
    )


def follow_case(
    case_id: str, steps: int, step: Path | None, env: str | None, results: Path, limit_s: float
) -> Growth:
    """Run a case's step `steps` times, and return what memory it held after each.

    `step` is a file with a function that is called instead of the case's step; `env` is the
    interpreter. Raises UnknownCase and NoReadings.
    """
    case = hypothetical.parse_any_batch(case_id)
    obstacle = runner.explain_unsupported(case)
    if case.ranks > 1:
        obstacle = "grow follows a single process, and not one of several ranks"
    if obstacle:  # before an environment is built for nothing
        raise NoReadings(f"{case.id}: {obstacle}")
    announce(steps)
    with lock_for_measuring(results), show_progress(case.id) as show:
        environment = installed.find_environments([case.framework], env, say)[case.framework]
        return measure.read_case(case, environment, steps, step, limit_s, show)


def follow_model(
    file: Path, steps: int, step: Path | None, env: str | None, results: Path, limit_s: float
) -> Growth:
    """Train the model of a file as `framebench try` takes it, and return what each step held.

    The arguments are those of `follow_case`. Raises Fault and NoReadings.
    """
    announce(steps)
    opened_model = open_model(
        file, scenario="train", strategies=[], batch=USER_MODEL_BATCH, env=env, results=results
    )
    with (
        lock_for_measuring(results),
        opened_model as (cases, environment, _),
        show_progress(file.name) as show,
    ):
        return measure.read_case(cases[0], environment, steps, step, limit_s, show)


def follow_script(
    script: Path,
    arguments: list[str],
    steps: int,
    step_at: str,
    env: str | None,
    results: Path,
    limit_s: float,
) -> Growth:
    """Read the steps of a user's training script. Raises NoReadings and Fault."""
    framework = measure.find_framework(script)
    announce(steps)
    with lock_for_measuring(results), show_progress(script.name) as show:
        environment = installed.find_environments([framework], env, say)[framework]
        return measure.read_script(script, arguments, environment, steps, step_at, limit_s, show)
