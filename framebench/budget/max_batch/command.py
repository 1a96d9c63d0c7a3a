"""Commands within a budget of memory: `max-batch | evaluate`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from framebench.budget.max_batch import measure as search
from framebench.budget.max_batch import oom_recovery
from framebench.cli.shared import BUDGET, AsJson, Env, Results, app, err, fail, measuring, out, parse_bytes, parts, say
from framebench.engine import environments, installed, runner
from framebench.engine.environments import SetupError
from framebench.models import spec
from framebench.records.search import Fit
from framebench.strategies.registry import SCENARIOS
from framebench.suite import selectors
from framebench.suite.case import DEFAULT_SIZE, FULL_SIZE, Case
from framebench.suite.user_file import Fault
from framebench.user_file.opening import open_model

ASKED = "such as transformer/*/train/checkpoint, by default the baseline of training; or your own file"


@app.command("max-batch", rich_help_panel=BUDGET)
def max_batch_(
    budget: Annotated[
        str | None, typer.Option(help="Memory for tensors and workspaces, such as 1GiB. Default: all that --device has.")
    ] = None,
    asked: Annotated[str, typer.Argument(metavar="CASES", help=ASKED)] = "",
    scenario: Annotated[str, typer.Option(help="of a file of your own: train or eval")] = "train",
    strategies: Annotated[str | None, typer.Option(help="of a file of your own; by default its baseline")] = None,
    device: Annotated[str | None, typer.Option(help="Predict for a device that is not here, such as a100-40gb.")] = None,
    max_batch: Annotated[int, typer.Option(min=1)] = 2**16,
    time_limit: Annotated[float, typer.Option(min=0.01, help="Seconds for each probe.")] = 900.0,
    minutes: Annotated[
        float, typer.Option(min=0, help="For each search, after which no other batch is tried.")
    ] = search.MINUTES,
    results: Results = runner.RESULTS,
    again: Annotated[bool, typer.Option("--again", help="Search again, even if this was answered before.")] = False,
    env: Env = None,
    as_json: AsJson = False,
) -> None:
    """Find the largest batch that fits into a budget of memory, under an enforced limit.

    What this machine has found before is answered at once.
    """
    options = runner.Options(time_limit_s=time_limit)
    if asked.endswith(".py"):
        return of_file(Path(asked), scenario, strategies, budget, env, max_batch, options, results, as_json, minutes)
    given = parts(asked)
    workload = _named(given.workload, given.batch, budget)
    framework, stage, size = given.framework or "*", given.scenario or "train", given.size or DEFAULT_SIZE
    if device is None and budget is None:
        fail("how much memory? --budget 16GiB, or --device a100-40gb for one that is not here", 2)
    budget_bytes = parse_bytes(budget) if budget else None
    if not given.strategy and stage in SCENARIOS:
        say(f"tried is the baseline, {SCENARIOS[stage].baseline}: name others, as in {workload}/*/{stage}/{{a,b}}")
    if device is not None:
        baseline = given._replace(strategy=given.strategy or SCENARIOS[stage].baseline, size=given.size or FULL_SIZE)
        from framebench.devices.fit.advice import advise_on_device

        raise typer.Exit(advise_on_device(baseline, device, budget_bytes, results, as_json))
    assert budget_bytes is not None
    fit_records: list[Fit] = []
    for case in search.chosen(workload, framework, stage, given.strategy, size):
        one = None if again or env else _known(case, budget_bytes, max_batch, results)
        one = one or _searched(case, budget_bytes, env, max_batch, options, results, minutes, bool(fit_records))
        if one is not None:
            fit_records.append(one)
            _show(one, as_json)
    _print_json(fit_records, as_json)
    raise typer.Exit(any(f.status == "stopped" for f in fit_records) or not fit_records)


def _named(workload: str | None, batch: int | None, budget: str | None) -> str:
    """The workload, which must be named, of a question without a batch."""
    if batch:
        fail(f"max-batch finds the batch: leave b{batch} out", 2)
    workloads = spec.names()
    if not workload:
        fail(f"which workload? {', '.join(workloads)}: framebench max-batch '{workloads[-1]}/*/train' --budget {budget}", 2)
    return workload


def _known(case: Case, budget_bytes: int, max_batch: int, results: Path) -> Fit | None:
    """What this machine has found before, which is said."""
    one = search.known(case, budget_bytes, environments.describe(case.framework), max_batch, results)
    if one:
        say(f"{case.id}: measured {one.provenance.measured_at:%Y-%m-%d %H:%M} UTC; --again measures anew")
    return one


def _show(one: Fit, as_json: bool) -> None:
    from framebench.budget.max_batch import table as searches

    if not as_json:
        searches.table(one).terminal(out)


def _print_json(found: list[Fit], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([f.model_dump(mode="json") for f in found], indent=1))


def of_file(
    file: Path, scenario: str, strategies: str | None, asked: str | None, env: str | None, most: int, options: runner.Options,
    results: Path, as_json: bool, minutes: float,
) -> None:  # fmt: skip
    """A user's own model: what its batch(n) gives for other n."""
    if asked is None:
        fail(f"how much memory? framebench max-batch {file} --budget 16GiB", 2)
    found, budget, named = list[Fit](), parse_bytes(asked), strategies.split(",") if strategies else []
    try:
        opened = open_model(file, scenario, named, 8, env, results)
        with measuring(results), opened as (cases, environment, where), err.status(file.name) as status:
            for case in cases:
                smallest = replace(case, batch=case.plan.micro_batches)
                show_phase = lambda at, phase: status.update(f"{at.id}: {phase}")  # noqa: E731
                found.append(search.find(smallest, budget, environment, most, options, where, show_phase, minutes))
                _show(found[-1], as_json)
    except Fault as error:
        fail(str(error), 2)
    _print_json(found, as_json)
    raise typer.Exit(any(f.status == "stopped" for f in found))


def _searched(
    case: Case,
    budget_bytes: int,
    env: str | None,
    max_batch: int,
    options: runner.Options,
    results: Path,
    minutes: float,
    before: bool,
) -> Fit | None:
    """None if the framework's environment cannot be built, which is said. `before`: whether another case has its answer."""

    kept = "; what was found for the cases before is kept" if before else "; nothing was found yet"
    with measuring(results, lambda: kept), err.status(case.id) as status:
        try:
            environment = installed.ready([case.framework], env, say)[case.framework]
        except SetupError as error:
            say(f"{case.framework}: {error}")
            return None
        show_phase = lambda at, phase: status.update(f"{at.id}: {phase}")  # noqa: E731
        return search.find(case, budget_bytes, environment, max_batch, options, results, show_phase, minutes)


@app.command(rich_help_panel=BUDGET)
def evaluate(
    budget: Annotated[str, typer.Option(help="Memory for tensors and workspaces, such as 300MiB.")],
    asked: Annotated[
        str, typer.Argument(metavar="CASE", help="Such as transformer/torch/eval/no_grad/b64. Its batch is tried first.")
    ] = "",
    samples: Annotated[int, typer.Option(min=1, help="Samples to evaluate in all.")] = 64,
    time_limit: Annotated[float, typer.Option(min=0.01, help="Seconds for each process.")] = 900.0,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Evaluate samples within a budget of memory. The batch is halved when memory runs out, and no sample is lost."""

    given = parts(asked)
    if (given.scenario or "eval", given.strategy or "no_grad") != ("eval", "no_grad"):
        fail(f"evaluate does eval/no_grad alone, and not {asked}", 2)
    every = selectors.select(f"{given.workload or '*'}/{given.framework or '*'}/eval/no_grad/*/{given.size or DEFAULT_SIZE}")
    found_cases = {replace(c, batch=given.batch or 64) for c in every}
    if len(found_cases) > 1:
        fail(f"one workload, framework and size are evaluated, not {len(found_cases)}; patterns name several", 2)
    (case,) = found_cases
    budget_bytes, options = parse_bytes(budget), runner.Options(time_limit_s=time_limit)
    with measuring(results), err.status(case.id) as status:
        environment = environments.ensure(case.framework, say=say)
        evaluate_here = oom_recovery.evaluator(environment, options, lambda phase: status.update(f"{case.id}: {phase}"))
        evaluation = evaluate_here(case, samples, budget_bytes)
    if as_json:
        typer.echo(json.dumps({"case": case.id, "budget_bytes": budget_bytes} | evaluation.as_dict(), indent=1))
    else:
        for line in oom_recovery.in_words(evaluation):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    if evaluation.failure:
        fail(evaluation.failure, 1)
