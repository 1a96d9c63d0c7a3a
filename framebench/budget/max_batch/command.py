"""Commands within a budget of memory: `max-batch | evaluate`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from framebench.budget.max_batch import measure, on_device, oom_recovery
from framebench.cli.shared import (
    BUDGET,
    MOST_S,
    NO_BUDGET,
    AsJson,
    Budget,
    Env,
    FileScenario,
    FileStrategies,
    ParsedSelector,
    ResultsOption,
    TargetDevice,
    app,
    echo,
    end_command,
    fail,
    lock_for_measuring,
    out,
    parse_bytes,
    parse_selector,
    repeat_options,
    say,
    show_progress,
)
from framebench.engine import environments, installed, runner
from framebench.engine.environments import Environment, SetupError
from framebench.models import spec
from framebench.ranks.cases import MOST_RANKS
from framebench.records.search import Fit
from framebench.strategies.registry import find_baseline
from framebench.suite import selectors
from framebench.suite.case import BATCH, DEFAULT_SIZE, FULL_SIZE, Case
from framebench.suite.counting import format_count
from framebench.suite.hypothetical import LARGEST_BATCH
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.opening import open_model
from framebench.user_file.strategies import parse_strategies

CASES_HELP = (
    "such as transformer/*/train/checkpoint, by default the baseline of training; or your own file"
)
MINUTES_HELP = "For each search, after which no other batch is tried."
FIRST_BATCH = 8  # at which a file is looked into
EVALUATED_BATCH = 64  # tried first by `evaluate` if none is named
# in a suggested command, where the user named none
EXAMPLE_OVER_RANKS = "transformer/torch/train/fsdp"
EXAMPLE_RANKS = 8
EXAMPLE_DEVICE = "h100-80gb"
TimeLimit = Annotated[float, typer.Option(min=0.01, max=MOST_S, help="Seconds for each process.")]


@app.command("max-batch", rich_help_panel=BUDGET)
def max_batch_(
    budget: Budget = None,
    selector: Annotated[str, typer.Argument(metavar="CASES", help=CASES_HELP)] = "",
    scenario: FileScenario = "train",
    strategies: FileStrategies = None,
    device: TargetDevice = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            min=2, max=MOST_RANKS, help="With --device: number of devices that share the batch."
        ),
    ] = None,
    max_batch: Annotated[int, typer.Option(min=1)] = LARGEST_BATCH,
    time_limit: TimeLimit = 900.0,
    minutes: Annotated[
        float, typer.Option(min=0, max=MOST_S // 60, help=MINUTES_HELP)
    ] = measure.MINUTES,
    results: ResultsOption = runner.RESULTS,
    again: Annotated[
        bool, typer.Option("--again", help="Search again, even if this was answered before.")
    ] = False,
    env: Env = None,
    as_json: AsJson = False,
) -> None:
    """Find the largest batch that fits into a budget of memory, under an enforced limit.

    What this machine has found before is answered at once. With --device the batch is predicted,
    and with --ranks it is that of several such devices, each of which has the budget.
    """
    named_strategies = parse_strategies(strategies, scenario)
    is_file = selector.endswith(".py")
    is_over_ranks = any(map(selectors.asks_for_ranks, selectors.expand_braces(selector)))
    if ranks is not None or (is_over_ranks and not is_file):
        end_command(answer_over_ranks(selector, ranks, device, budget, results, as_json))
    if device is not None:  # predictions alone, without a limit to enforce
        any_fits = answer_for_device(
            selector, scenario, named_strategies, device, budget, results, env, as_json
        )
        end_command(any_fits)
    if budget is None:
        fail(NO_BUDGET, 2)
    options = runner.Options(time_limit_s=time_limit)
    searches = SearchRun(budget, max_batch, options, minutes, results, as_json)
    if is_file:
        try:
            with (
                lock_for_measuring(results, searches.describe_saved),
                open_model(
                    Path(selector), scenario, named_strategies, FIRST_BATCH, env, results
                ) as (cases, environment, folder),
            ):
                for case in cases:
                    searches.search(case, environment, folder)
        except Fault as error:
            fail(str(error), 2)
    else:
        for case in choose_cases(selector):
            # another interpreter may have other releases than what was saved
            may_reuse = not again and env is None
            if not may_reuse or not searches.reuse_saved(case):
                searches.search_case(case, env)
    fits = searches.fits
    if as_json:
        echo(json.dumps([fit.model_dump(mode="json") for fit in fits], indent=1))
    has_stopped = any(fit.status == "stopped" for fit in fits)
    end_command(succeeded=bool(fits) and not has_stopped)


@dataclass
class SearchRun:
    """The searches of one call of `max-batch`, and their answers up to now."""

    budget: int  # bytes
    largest_batch: int
    options: runner.Options
    minutes: float  # of each search
    results: Path
    as_json: bool
    fits: list[Fit] = field(default_factory=list)

    def reuse_saved(self, case: Case) -> bool:
        """Show the saved answer for a case, and return whether there is one."""
        saved = measure.find_saved(case, self.budget, self.largest_batch, self.results)
        if saved is None:
            return False
        measured_at = f"{saved.provenance.measured_at:%Y-%m-%d %H:%M} UTC"
        say(f"{case.id}: measured {measured_at}; --again measures anew")
        self.fits.append(saved)
        self.show(saved)
        return True

    def search_case(self, case: Case, env: str | None) -> None:
        """Search in the environment of the case's framework, or print why there is none."""
        # locked for one case at a time, since a saved answer needs no lock
        with lock_for_measuring(self.results, self.describe_saved):
            try:
                found = installed.find_environments([case.framework], env, say)
            except SetupError as error:
                say(f"{case.framework}: {error}")
            else:
                self.search(case, found[case.framework], self.results)

    def search(self, case: Case, environment: Environment, folder: Path) -> None:
        """Search the largest batch of a case, and show how far the search is."""
        smallest = replace(case, batch=case.strategy_spec.micro_batches)
        limit = f"up to {self.minutes:g} min"
        say(f"{smallest.id}: trying larger batches, a process for each, {limit}")
        with show_progress("max-batch") as show:
            fit = measure.search_largest_batch(
                smallest,
                self.budget,
                environment,
                self.largest_batch,
                self.options,
                folder,
                show,
                self.minutes,
                on_saved=self.fits.append,
            )
        self.show(fit)

    def show(self, fit: Fit) -> None:
        """Print the table of an answer, unless all are printed as JSON."""
        if not self.as_json:
            from framebench.budget.max_batch.table import make_table  # imports pandas

            make_table(fit).terminal(out)

    def describe_saved(self) -> str:
        """Return the end of a message about an interrupted command: what it has saved."""
        if not self.fits:
            return "; nothing was found yet"
        return f"; what was found for {format_count(len(self.fits), 'case')} is kept"


def answer_for_device(
    selector: str,
    scenario: str,
    strategies: list[str],
    device: str,
    budget: int | None,
    results: Path,
    env: str | None,
    as_json: bool,
) -> bool | None:
    """Search by predictions for a device that is not here, and return whether any batch fits.

    Return None if nothing could be predicted. Raises UnknownCase and UnknownDevice.
    """
    if not selector.endswith(".py"):
        from framebench.devices.fit.advice import advise_on_device

        parsed = parse_question(selector)
        question = parsed._replace(
            strategy=parsed.strategy or find_baseline(parsed.scenario or "train"),
            size=parsed.size or FULL_SIZE,
        )
        return advise_on_device(question, device, budget, results, as_json)
    try:
        model = trial.inspect_file(Path(selector), FIRST_BATCH, scenario=scenario)
        strategies = strategies or [model.baseline.strategy]
        return on_device.fit_file(
            model=model,
            strategies=strategies,
            device_name=device,
            budget=budget,
            largest_batch=True,
            results=results,
            env=env,
            as_json=as_json,
        )
    except Fault as error:
        fail(str(error), 2)


def answer_over_ranks(
    selector: str,
    ranks: int | None,
    device: str | None,
    budget: int | None,
    results: Path,
    as_json: bool,
) -> bool | None:
    """Search by predictions the largest batch of several devices, and return whether any fits.

    Ends the command for a file, and if workload, device or ranks are missing or a batch is named.
    Raises UnknownCase and UnknownDevice.
    """
    if selector.endswith(".py"):
        fail("--ranks takes the suite's cases, not a file", 2)
    parts = selector.strip("/").split("/")
    batches = [part for part in parts if BATCH.fullmatch(part)]
    if not selector or ranks is None or device is None or batches:
        example = "/".join("*" if part in batches else part for part in parts)
        _, _, ranks_of_batch = batches[0].partition("x") if batches else ("", "", "")
        example_ranks = ranks or ranks_of_batch or EXAMPLE_RANKS
        fail(
            "the largest batch over ranks is only predicted: name a workload, --ranks and "
            f"--device, and no batch: framebench max-batch '{example or EXAMPLE_OVER_RANKS}' "
            f"--ranks {example_ranks} --device {device or EXAMPLE_DEVICE}"
            f"{repeat_options(results, budget)}",
            2,
        )
    from framebench.devices.fit.advice import search_over_ranks  # imports pandas

    question = parse_selector(selector)
    return search_over_ranks(question, ranks, device, budget, results, as_json)


def parse_question(selector: str) -> ParsedSelector:
    """Return the fields of a selector of one workload, whose batch is searched for.

    A selector that names a batch, or no workload, ends the command. Raises UnknownCase.
    """
    parsed = parse_selector(selector)
    if parsed.batch:
        fail(f"max-batch finds the batch: leave b{parsed.batch} out", 2)
    if not parsed.workload:
        workloads = spec.list_workloads()
        example = f"framebench max-batch '{workloads[-1]}/*/train' --budget 16GiB"
        fail(f"which workload? {', '.join(workloads)}: {example}", 2)
    baseline = find_baseline(parsed.scenario or "train")
    if baseline and not parsed.strategy:
        say(f"tried is the baseline, {baseline}; '{parsed.workload}/*/train/{{a,b}}' names others")
    return parsed


def choose_cases(selector: str) -> list[Case]:
    """Return the cases that are searched for, of one workload, which must be named.

    Raises UnknownCase.
    """
    parsed = parse_question(selector)
    return measure.select_cases(
        parsed.workload or "*",
        parsed.framework or "*",
        parsed.scenario or "train",
        parsed.strategy,
        parsed.size or DEFAULT_SIZE,
    )


@app.command(rich_help_panel=BUDGET)
def evaluate(
    budget: Annotated[
        int,
        typer.Option(
            parser=parse_bytes,
            metavar="SIZE",
            help="Memory for tensors and workspaces, such as 300MiB.",
        ),
    ],
    selector: Annotated[
        str,
        typer.Argument(
            metavar="CASE",
            help="Such as transformer/torch/eval/no_grad/b64. Its batch is tried first.",
        ),
    ] = "",
    samples: Annotated[int, typer.Option(min=1, help="Samples to evaluate in all.")] = 64,
    time_limit: TimeLimit = 900.0,
    results: ResultsOption = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Evaluate samples within a budget of memory.

    The batch is halved when memory runs out, and no sample is lost.
    """
    case = find_evaluated_case(selector)
    options = runner.Options(time_limit_s=time_limit)
    with lock_for_measuring(results), show_progress("evaluate") as show:
        say(f"{case.id}: evaluating {format_count(samples, 'sample')}")
        environment = environments.ensure(case.framework, say=say)
        evaluation = oom_recovery.evaluate_in(environment, case, samples, budget, options, show)
    if as_json:
        answer = {"case": case.id, "budget_bytes": budget, **evaluation.as_dict()}
        echo(json.dumps(answer, indent=1))
    else:
        for line in oom_recovery.describe_evaluation(evaluation):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    if evaluation.failure:
        fail(evaluation.failure, 1)


def find_evaluated_case(selector: str) -> Case:
    """Return the one case to evaluate, at the batch to begin with. Raises UnknownCase."""
    parsed = parse_selector(selector)
    workload = parsed.workload or "*"
    framework = parsed.framework or "*"
    scenario = parsed.scenario or "eval"
    strategy = parsed.strategy or "no_grad"
    size = parsed.size or DEFAULT_SIZE
    batch = parsed.batch or EVALUATED_BATCH
    selected = selectors.select(f"{workload}/{framework}/{scenario}/{strategy}/*/{size}")
    cases = {replace(case, batch=batch) for case in selected}  # one, if only batches differed
    example = replace(min(cases), scenario="eval", strategy="no_grad").id
    if (scenario, strategy) != ("eval", "no_grad"):
        fail(f"evaluate takes eval/no_grad alone, not {scenario}/{strategy}: {example}", 2)
    if len(cases) > 1:
        fail(
            f"evaluate takes one workload and framework, and {selector!r} names {len(cases)} "
            f"cases. Write for instance {example}",
            2,
        )
    return cases.pop()
