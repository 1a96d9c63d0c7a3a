"""Commands that answer from records what to use: `advise`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from framebench.cli.shared import (
    BUDGET,
    AsJson,
    Machine,
    Results,
    app,
    echo,
    fail,
    find_answering_machines,
    out,
    parse_bytes,
    parse_selector,
    say,
)
from framebench.models import spec
from framebench.ranks.cases import match_cases
from framebench.ranks.command import advise as advise_over_ranks
from framebench.records import provenance
from framebench.strategies.registry import SCENARIOS, find_strategy, list_strategies, list_used
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import selectors
from framebench.suite.case import DEFAULT_SIZE, UnknownCase

if TYPE_CHECKING:
    from framebench.analysis.blocks import Blocks
    from framebench.budget.advise.advice import BudgetAdvice, Change, Question

CASES_HELP = (
    "Such as transformer/*/train/*/b4/cpu. Without a batch, the largest that fits; with "
    "--device the usual one."
)
SORT_HELP = "`speed`: fastest first. `memory`: least needed first. `batch`: largest batch first."
NO_OTHER_MODEL = (
    "--device predicts this suite's own models: leave --from, --machine and --parameters out"
)
FULL_SIZES = "; sizes full, full-350m and full-1b are Transformers for it"
FACTORS = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}


@dataclass(frozen=True)
class ModelDescription:
    """What a user says of a model that is only described."""

    parameters: float | None
    sequence: int | None  # tokens
    width: int | None
    layers: int | None
    vocabulary: int | None


def check_sort(sort: str) -> str:
    """Return the order of sorting, or end the command if there is no such order."""
    if sort not in ("speed", "memory", "batch"):
        fail(f"--sort {sort!r}: choose speed, memory or batch", 2)
    return sort


def parse_count(text: str) -> float:
    """Return the number in `124M`, `1.3B` or `124e6`. Raises typer.BadParameter."""
    matched = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)([kKMB]?)", text.strip())
    count = 0.0
    if matched:
        with suppress(ValueError):  # such as `1.2.3`
            count = float(matched[1]) * FACTORS[matched[2]]
    if count < 1:
        raise typer.BadParameter(
            f"{text!r} is no number of parameters: write for instance 124M, 1.3B or 124e6"
        )
    return count


@app.command(rich_help_panel=BUDGET)
def advise(
    budget: Annotated[
        str | None,
        typer.Option(
            help="Memory for tensors and workspaces, such as 1GiB. Default: all that --device has."
        ),
    ] = None,
    selector: Annotated[
        str, typer.Argument(metavar="CASES", help=CASES_HELP)
    ] = "transformer/*/train",
    current: Annotated[
        str | None, typer.Option("--from", help="What you use now: a strategy, or a full case id.")
    ] = None,
    machine: Machine = None,
    parameters: Annotated[
        float | None,
        typer.Option(
            parser=parse_count,
            metavar="N",
            help="Describe a model by its parameters, such as 124M.",
        ),
    ] = None,
    sequence: Annotated[
        int | None, typer.Option(min=1, help="Tokens per sequence of that model. Default: 1024.")
    ] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Width of that model.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers of that model.")] = None,
    vocabulary: Annotated[
        int | None, typer.Option(min=1, help="Vocabulary of that model. Default: 50304.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="A device that is not here, such as a100-40gb. `framebench devices` lists them."
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(help="Predict strategies over this many ranks. The budget is per rank."),
    ] = None,
    results: Results = provenance.READABLE,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also show the rest, strategies that compute something "
            "else, and what is too large.",
        ),
    ] = False,
    sort: Annotated[str, typer.Option(help=SORT_HELP, callback=check_sort)] = "speed",
    as_json: AsJson = False,
) -> None:
    """Which strategies fit into a budget of memory?

    Measured where there are records, else predicted.
    """
    if device is not None:
        if current or machine or parameters:
            fail(NO_OTHER_MODEL + (FULL_SIZES if parameters else ""), 2)
        from framebench.devices.fit.advice import advise_on_device, fit_on_device

        budget_bytes = parse_bytes(budget) if budget else None
        if ranks or selectors.asks_for_ranks(selector or ""):
            cases = match_cases(selector or "", ranks)
            raise typer.Exit(fit_on_device(cases, {}, device, budget_bytes, results, as_json))
    named = parse_selector(selector)
    if device is not None:
        raise typer.Exit(advise_on_device(named, device, budget_bytes, results, as_json))
    if budget is None:
        fail("how much memory? --budget 16GiB, or --device a100-40gb for one that is not here", 2)

    workload, scenario = named.workload or "transformer", named.scenario or "train"
    size = named.size or DEFAULT_SIZE
    frameworks, strategies = resolve_names(
        workload, named.framework or "*", scenario, size, named.strategy
    )
    if ranks is not None:
        if named.strategy:
            fail(f"--ranks looks among all strategies over ranks: leave {named.strategy!r} out", 2)
        if current or machine or parameters:
            fail(
                "--ranks predicts this suite's own models: leave --from, --machine and "
                "--parameters out",
                2,
            )
        if not named.batch:
            example = f"'{workload}/*/{scenario}/*/b8' --budget {budget} --ranks {ranks}"
            fail(f"--ranks needs the batch that is shared: framebench advise {example}", 2)
        code = advise_over_ranks(
            workload,
            frameworks,
            scenario,
            named.batch,
            size,
            ranks,
            parse_bytes(budget),
            results,
            as_json,
        )
        raise typer.Exit(code)

    from framebench.budget.advise.advice import Question

    shape = make_shape(workload, ModelDescription(parameters, sequence, width, layers, vocabulary))
    if shape is not None:
        size = f"{spec.load_workload(workload).parameter_count(shape) / 1e6:,.0f}M"
    if strategies and current:
        strategies |= {strategy_name(current)}
    question = Question(
        workload,
        scenario,
        parse_bytes(budget),
        frameworks,
        named.batch,
        size,
        shape,
        cast(Literal["speed", "memory", "batch"], sort),
        strategies,
    )
    raise typer.Exit(answer_from_records(question, current, machine, results, every, as_json))


def answer_from_records(
    question: Question,
    current: str | None,
    machine: str | None,
    results: Path,
    every: bool,
    as_json: bool,
) -> bool:
    """Print what the records say. Returns whether nothing fits."""
    from framebench.analysis.peaks import read_evidence
    from framebench.analysis.results import NoRecords
    from framebench.analysis.results import Results as Folder
    from framebench.budget.advise import show
    from framebench.budget.advise.advice import advise as find_advice
    from framebench.budget.advise.advice import find_largest_that_fits

    folder = Folder(results)
    rows, blocks = [], {}
    for name in find_answering_machines(folder, machine):
        machine_rows, blocks[name] = read_evidence(
            results, name, question.workload, question.scenario
        )
        rows.append(machine_rows)
    largest = None
    try:
        advice = find_advice(rows, question, folder.searches)
        if question.batch and not advice.fitting:
            largest = find_largest_that_fits(rows, question, folder.searches)
    except NoRecords as error:
        fail(str(error), 1)
    changes = list_changes(current, advice, blocks[advice.machine]) if current else []

    if as_json:
        echo(json.dumps(show.make_json(advice, changes, largest), indent=1))
        return not advice.fitting
    print_sentences(show.describe_answer(advice, largest))
    for table in show.make_tables(advice, every):
        table.terminal(out)
    if question.shape is not None:
        values = [f"{name} {value:,}" for name, value in asdict(question.shape).items() if value]
        say(f"{question.size}: taken for {', '.join(values)}")
    print_sentences(show.list_notes(advice, changes, every))
    return not advice.fitting


def print_sentences(sentences: Iterable[str]) -> None:
    """Print each on a line of its own."""
    for sentence in sentences:
        out.print(sentence, markup=False, highlight=False, soft_wrap=True)


def resolve_names(
    workload: str, framework: str, scenario: str, size: str, strategy: str | None
) -> tuple[tuple[str, ...], frozenset[str] | None]:
    """Return the frameworks, in their order, and the strategies if some are named.

    Raises UnknownCase, with what is valid.
    """
    if set(scenario) & set("*?[{"):
        choices = ", ".join(SCENARIOS)
        fail(
            f"advise answers about one scenario, and {scenario!r} may be several; choose "
            f"from: {choices}",
            2,
        )
    baseline = SCENARIOS[scenario].baseline if scenario in SCENARIOS else "*"
    cases = selectors.select(f"{workload}/{framework}/{scenario}/{strategy or baseline}/*/{size}")
    selected = {case.framework for case in cases}
    frameworks = tuple(name for name in FRAMEWORKS if name in selected)
    strategies = frozenset(case.strategy for case in cases) if strategy else None
    return frameworks, strategies


def make_shape(workload: str, description: ModelDescription) -> Any:
    """Return the configuration of a model that is only described, or None if none is.

    Raises UnknownCase.
    """
    if not description.parameters:
        options = [
            name
            for name, value in asdict(description).items()
            if value is not None and name != "parameters"
        ]
        if options:
            names = ", ".join(f"--{name}" for name in options)
            fail(
                f"{names}: of a model that is only described; say how many --parameters it "
                "has, such as 124M",
                2,
            )
        return None
    make = spec.load_workload(workload).described
    if make is None:
        able = ", ".join(
            name for name in spec.list_workloads() if spec.load_workload(name).described
        )
        raise UnknownCase(
            f"{workload} cannot be described by its parameters alone; choose from: {able}"
        )
    sequence, vocabulary = description.sequence or 1024, description.vocabulary or 50304
    try:
        return make(
            description.parameters, sequence, description.width, description.layers, vocabulary
        )
    except ValueError as error:
        raise UnknownCase(str(error)) from None


def strategy_name(current: str) -> str:
    """Return the strategy that `--from` names, alone or in a case."""
    return selectors.parse(current).strategy if "/" in current else current


def list_changes(current: str, advice: BudgetAdvice, blocks: Blocks) -> list[Change]:
    """Return the changes from a strategy in every framework in question, or from one case.

    Raises UnknownCase.
    """
    from framebench.budget.advise.advice import find_change

    question = advice.question
    framework = selectors.parse(current).framework if "/" in current else "*"
    strategy = find_current_strategy(current, framework, question)
    frameworks = [name for name in question.frameworks if framework in ("*", name)]
    changes = []
    for name in frameworks:
        change = find_change(advice, name, strategy, blocks)
        if change:
            changes.append(change)
    if not changes:
        where = ", ".join(frameworks) or framework
        fail(f"no record says anything of {current} in {where}: framebench run measures it", 1)
    return changes


def find_current_strategy(current: str, framework: str, question: Question) -> str:
    """Return the one strategy that `--from` names. Raises UnknownCase."""
    scenario = question.scenario
    if "/" in current:
        case = selectors.parse(current)
        if (case.workload, case.scenario) != (question.workload, scenario):
            expected = f"{question.workload}/*/{scenario}"
            raise UnknownCase(
                f"--from {current} is of another workload or scenario than {expected}"
            )
    elif not any(fnmatchcase(name, current) for name in list_strategies(scenario)):
        choices = selectors.suggest(list_used(scenario), current)
        raise UnknownCase(
            f"--from {current}: {scenario} has no such strategy; choose from: {choices}"
        )

    # in any size that is declared, as a described model has none
    pattern = f"{question.workload}/{framework}/{scenario}/{strategy_name(current)}/*/tiny"
    strategies = sorted({case.strategy for case in selectors.select(pattern)})
    if len(strategies) > 1:
        choices = selectors.suggest(strategies, current)
        raise UnknownCase(
            f"--from {current} names {len(strategies)} strategies, not one: {choices}"
        )
    (strategy,) = strategies
    if find_strategy(scenario, strategy).only_for_claims:
        choices = ", ".join(list_used(scenario))
        raise UnknownCase(
            f"--from {current} only tests an article's sentence, so advice leaves "
            f"it out; choose from: {choices}"
        )
    return strategy
