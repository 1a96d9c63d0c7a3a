"""Commands within a budget of memory: `max-batch | evaluate`."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.status import Status

from framebench.budget.max_batch import measure, on_device, oom_recovery
from framebench.cli.shared import (
    BUDGET,
    MOST_S,
    AsJson,
    Env,
    Parts,
    Results,
    app,
    echo,
    err,
    fail,
    measuring,
    out,
    parse_bytes,
    parse_selector,
    say,
)
from framebench.engine import environments, installed, runner
from framebench.engine.environments import Environment, SetupError
from framebench.models import spec
from framebench.records.search import Fit
from framebench.strategies.registry import SCENARIOS
from framebench.suite import selectors
from framebench.suite.case import DEFAULT_SIZE, FULL_SIZE, Case
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.opening import open_model

CASES_HELP = (
    "such as transformer/*/train/checkpoint, by default the baseline of training; or your own file"
)


FIRST_BATCH = 8  # at which a file is looked into


@dataclass(frozen=True)
class SearchOptions:
    """How batches are searched for, whatever the case."""

    most: int  # samples
    minutes: float  # for each search
    options: runner.Options
    results: Path
    env: str | None
    as_json: bool


@app.command("max-batch", rich_help_panel=BUDGET)
def max_batch_(
    budget: Annotated[
        str | None,
        typer.Option(
            help="Memory for tensors and workspaces, such as 1GiB. Default: all that --device has."
        ),
    ] = None,
    selector: Annotated[str, typer.Argument(metavar="CASES", help=CASES_HELP)] = "",
    scenario: Annotated[str, typer.Option(help="of a file of your own: train or eval")] = "train",
    strategies: Annotated[
        str | None, typer.Option(help="of a file of your own; by default its baseline")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Predict for a device that is not here, such as a100-40gb.")
    ] = None,
    max_batch: Annotated[int, typer.Option(min=1)] = measure.LARGEST_BATCH,
    time_limit: Annotated[
        float, typer.Option(min=0.01, max=MOST_S, help="Seconds for each probe.")
    ] = 900.0,
    minutes: Annotated[
        float,
        typer.Option(
            min=0, max=MOST_S / 60, help="For each search, after which no other batch is tried."
        ),
    ] = measure.MINUTES,
    results: Results = runner.RESULTS,
    again: Annotated[
        bool, typer.Option("--again", help="Search again, even if this was answered before.")
    ] = False,
    env: Env = None,
    as_json: AsJson = False,
) -> None:
    """Find the largest batch that fits into a budget of memory, under an enforced limit.

    What this machine has found before is answered at once.
    """
    options = SearchOptions(
        max_batch, minutes, runner.Options(time_limit_s=time_limit), results, env, as_json
    )
    if selector.endswith(".py"):
        named_strategies = strategies.split(",") if strategies else []
        if device is not None:
            budget_bytes = parse_bytes(budget) if budget else None
            search_file_on_device(
                Path(selector), scenario, named_strategies, device, budget_bytes, options
            )
        if budget is None:
            fail(
                f"how much memory? framebench max-batch {selector} --budget 16GiB, or --device "
                "a100-40gb for one that is not here",
                2,
            )
        search_file(Path(selector), scenario, named_strategies, parse_bytes(budget), options)

    named = parse_selector(selector)
    workload = require_workload(named, budget)
    stage = named.scenario or "train"
    if device is None and budget is None:
        fail("how much memory? --budget 16GiB, or --device a100-40gb for one that is not here", 2)
    budget_bytes = parse_bytes(budget) if budget else None
    if not named.strategy and stage in SCENARIOS:
        baseline = SCENARIOS[stage].baseline
        say(f"tried is the baseline, {baseline}: name others, as in {workload}/*/{stage}/{{a,b}}")
    if device is not None:
        from framebench.devices.fit.advice import advise_on_device

        question = named._replace(
            strategy=named.strategy or SCENARIOS[stage].baseline, size=named.size or FULL_SIZE
        )
        raise typer.Exit(advise_on_device(question, device, budget_bytes, results, as_json))

    assert budget_bytes is not None
    fits: list[Fit] = []
    size = named.size or DEFAULT_SIZE
    for case in measure.select_cases(workload, named.framework or "*", stage, named.strategy, size):
        fit = None
        if not again and env is None:
            fit = find_saved(case, budget_bytes, options)
        if fit is None:
            fit = search(case, budget_bytes, options, has_answers=bool(fits))
        if fit is not None:
            fits.append(fit)
            show(fit, as_json)
    print_json(fits, as_json)
    raise typer.Exit(not fits or any(fit.status == "stopped" for fit in fits))


def require_workload(named: Parts, budget: str | None) -> str:
    """Return the workload, which must be named, of a question without a batch."""
    if named.batch:
        fail(f"max-batch finds the batch: leave b{named.batch} out", 2)
    if not named.workload:
        workloads = spec.list_workloads()
        example = f"framebench max-batch '{workloads[-1]}/*/train' --budget {budget}"
        fail(f"which workload? {', '.join(workloads)}: {example}", 2)
    return named.workload


def find_saved(case: Case, budget: int, options: SearchOptions) -> Fit | None:
    """Return what this machine found before, and say when that was."""
    fit = measure.find_saved(
        case, budget, environments.describe(case.framework), options.most, options.results
    )
    if fit:
        say(
            f"{case.id}: measured {fit.provenance.measured_at:%Y-%m-%d %H:%M} UTC; --again "
            "measures anew"
        )
    return fit


def search(case: Case, budget: int, options: SearchOptions, has_answers: bool) -> Fit | None:
    """Search for one case, or say why the framework's environment cannot be built.

    `has_answers`: whether another case has its answer, which an interrupted command says.
    """

    def describe_kept() -> str:
        return (
            "; what was found for the cases before is kept"
            if has_answers
            else ("; nothing was found yet")
        )

    with measuring(options.results, describe_kept), err.status(case.id) as status:
        try:
            environment = installed.ready([case.framework], options.env, say)[case.framework]
        except SetupError as error:
            say(f"{case.framework}: {error}")
            return None
        return search_in(environment, case, budget, options, options.results, status)


def search_file(
    file: Path, scenario: str, strategies: list[str], budget: int, options: SearchOptions
) -> NoReturn:
    """Search for what a user's model does at other batches than its file's, and end the command."""
    fits: list[Fit] = []
    try:
        opened = open_model(file, scenario, strategies, FIRST_BATCH, options.env, options.results)
        with (
            measuring(options.results),
            opened as (cases, environment, folder),
            err.status(file.name) as status,
        ):
            for case in cases:
                smallest = replace(case, batch=case.plan.micro_batches)
                fit = search_in(environment, smallest, budget, options, folder, status)
                fits.append(fit)
                show(fit, options.as_json)
    except Fault as error:
        fail(str(error), 2)
    print_json(fits, options.as_json)
    raise typer.Exit(any(fit.status == "stopped" for fit in fits))


def search_file_on_device(
    file: Path,
    scenario: str,
    strategies: list[str],
    device: str,
    budget: int | None,
    options: SearchOptions,
) -> NoReturn:
    """Search by predictions for a user's model, and end the command. Raises UnknownDevice."""
    try:
        model = trial.inspect_file(file, FIRST_BATCH, scenario=scenario)
        fits_nothing = on_device.fit_file(
            model,
            strategies or [model.baseline.strategy],
            device,
            budget,
            True,
            options.results,
            options.env,
            options.as_json,
        )
    except Fault as error:
        fail(str(error), 2)
    raise typer.Exit(fits_nothing)


def search_in(
    environment: Environment,
    case: Case,
    budget: int,
    options: SearchOptions,
    folder: Path,
    status: Status,
) -> Fit:
    """Search for one case in an environment, and show what it is at."""

    def show_phase(at: Case, phase: str) -> None:
        status.update(f"{at.id}: {phase}")

    return measure.search_largest_batch(
        case,
        budget,
        environment,
        options.most,
        options.options,
        folder,
        show_phase,
        options.minutes,
    )


def show(fit: Fit, as_json: bool) -> None:
    """Print the table of a search, unless JSON follows in the end."""
    from framebench.budget.max_batch.table import make_table

    if not as_json:
        make_table(fit).terminal(out)


def print_json(fits: list[Fit], as_json: bool) -> None:
    """Print all searches for programs, if that is asked for."""
    if as_json:
        echo(json.dumps([fit.model_dump(mode="json") for fit in fits], indent=1))


@app.command(rich_help_panel=BUDGET)
def evaluate(
    budget: Annotated[str, typer.Option(help="Memory for tensors and workspaces, such as 300MiB.")],
    selector: Annotated[
        str,
        typer.Argument(
            metavar="CASE",
            help="Such as transformer/torch/eval/no_grad/b64. Its batch is tried first.",
        ),
    ] = "",
    samples: Annotated[int, typer.Option(min=1, help="Samples to evaluate in all.")] = 64,
    time_limit: Annotated[
        float, typer.Option(min=0.01, max=MOST_S, help="Seconds for each process.")
    ] = 900.0,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Evaluate samples within a budget of memory.

    The batch is halved when memory runs out, and no sample is lost.
    """
    case = find_evaluated_case(selector)
    budget_bytes = parse_bytes(budget)
    options = runner.Options(time_limit_s=time_limit)
    with measuring(results), err.status(case.id) as status:

        def show_phase(phase: str) -> None:
            status.update(f"{case.id}: {phase}")

        environment = environments.ensure(case.framework, say=say)
        evaluation = oom_recovery.evaluate_in(
            environment, case, samples, budget_bytes, options, show_phase
        )
    if as_json:
        answer = {"case": case.id, "budget_bytes": budget_bytes, **evaluation.as_dict()}
        echo(json.dumps(answer, indent=1))
    else:
        for line in oom_recovery.describe_evaluation(evaluation):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    if evaluation.failure:
        fail(evaluation.failure, 1)


def find_evaluated_case(selector: str) -> Case:
    """Return the one case to evaluate, at the batch to begin with. Raises UnknownCase."""
    named = parse_selector(selector)
    if (named.scenario or "eval", named.strategy or "no_grad") != ("eval", "no_grad"):
        fail(f"evaluate does eval/no_grad alone, and not {selector}", 2)
    workload, framework = named.workload or "*", named.framework or "*"
    pattern = f"{workload}/{framework}/eval/no_grad/*/{named.size or DEFAULT_SIZE}"
    cases = {replace(case, batch=named.batch or 64) for case in selectors.select(pattern)}
    if len(cases) > 1:
        fail(
            f"one workload, framework and size are evaluated, not {len(cases)}; patterns name "
            "several",
            2,
        )
    (case,) = cases
    return case
