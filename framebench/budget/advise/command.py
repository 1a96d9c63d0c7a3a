"""Commands that answer from records what to use: `advise`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NoReturn

import typer

from framebench.cli.shared import (
    BUDGET,
    NO_BUDGET,
    AsJson,
    Budget,
    MachineOption,
    ParsedSelector,
    ResultsOption,
    TargetDevice,
    app,
    echo,
    end_command,
    fail,
    find_answering_machines,
    out,
    parse_selector,
    repeat_options,
    say,
    suggest_measuring,
)
from framebench.models import spec
from framebench.ranks.cases import (
    complete_rank_selector,
    fill_rank_selector,
    match_cases,
    match_checkpointed_cases,
)
from framebench.records import provenance
from framebench.strategies.registry import SCENARIOS, find_baseline, list_used
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import selectors
from framebench.suite.case import DEFAULT_SIZE, FULL_SIZE, Case, UnknownCase
from framebench.suite.hypothetical import (
    check_described,
    describe_shape,
    name_described,
    refuse_undescribed,
)

if TYPE_CHECKING:
    from framebench.analysis.blocks import Blocks
    from framebench.analysis.frames import Row
    from framebench.budget.advise.advice import BudgetAdvice, Question, SuggestedChange

CASES_HELP = (
    "Such as transformer/*/train/*/b4/cpu. Without a batch, the largest that fits; with "
    "--device and no size, or with --parameters, the usual one."
)
EXAMPLE_DEVICE = "h100-80gb"  # in a suggested command, where the user named none
FACTORS = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}


class ShapeOptions(NamedTuple):
    """The options that describe a model, next to its number of parameters."""

    sequence: int = spec.SEQUENCE
    width: int | None = None
    layers: int | None = None
    vocabulary: int = spec.VOCABULARY


def parse_count(text: str) -> float:
    """Return the number in `124M`, `1.3B` or `124e6`. Raises typer.BadParameter."""
    matched = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d+)?)([kKMB]?)", text.strip())
    count = float(matched[1]) * FACTORS[matched[2]] if matched else 0
    if count < 1:
        raise typer.BadParameter(
            f"{text!r} is no number of parameters: write for instance 124M, 1.3B or 124e6"
        )
    return count


@app.command(rich_help_panel=BUDGET)
def advise(
    budget: Budget = None,
    selector: Annotated[
        str, typer.Argument(metavar="CASES", help=CASES_HELP)
    ] = "transformer/*/train",
    current: Annotated[
        str | None, typer.Option("--from", help="The strategy that you use now. Not with --device.")
    ] = None,
    machine: MachineOption = None,
    parameters: Annotated[
        float | None,
        typer.Option(
            parser=parse_count,
            metavar="N",
            help="Describe a model by its parameters, such as 124M.",
        ),
    ] = None,
    sequence: Annotated[
        int, typer.Option(min=1, help="Tokens per sequence of that model.")
    ] = spec.SEQUENCE,
    width: Annotated[int | None, typer.Option(min=1, help="Width of that model.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers of that model.")] = None,
    vocabulary: Annotated[
        int, typer.Option(min=1, help="Vocabulary of that model.")
    ] = spec.VOCABULARY,
    device: TargetDevice = None,
    ranks: Annotated[
        int | None,
        typer.Option(help="Predict strategies over this many ranks. The budget is per rank."),
    ] = None,
    results: ResultsOption = provenance.READABLE,
    show_all: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also show the rest, strategies that compute something "
            "else, and what is too large.",
        ),
    ] = False,
    sort: Annotated[
        Literal["speed", "memory", "batch"],
        typer.Option(help="Fastest first, least needed first, or largest batch first."),
    ] = "speed",
    as_json: AsJson = False,
) -> None:
    """Which strategies fit into a budget of memory?

    Measured where there are records, else predicted.
    """
    # an unknown workload is refused first, before the user is asked for a budget
    workload, *_ = selectors.refuse_file(selector).strip("/").split("/")
    if workload and "{" not in workload:
        selectors.check_workload(workload)
    if (device or ranks) and (current or machine):
        fail("--device and --ranks ask predictions alone: leave --from and --machine out", 2)
    shape_options = ShapeOptions(sequence, width, layers, vocabulary)
    described = None
    if parameters:
        described = name_described(parameters, *shape_options)
    elif shape_options != ShapeOptions():
        fail(
            "--sequence, --width, --layers and --vocabulary describe a model: say how many "
            "--parameters it has, such as 124M",
            2,
        )
    if described and device is None and (ranks or selectors.asks_for_ranks(selector)):
        full_selector = complete_rank_selector(selector, ranks, described)
        options = f" --device {EXAMPLE_DEVICE}{repeat_options(results, budget)}"
        fail(
            "over ranks a model that is only described is predicted for a device: framebench "
            f"advise '{full_selector}'{options}",
            2,
        )
    if device is not None:
        any_fits = answer_for_device(selector, described, device, budget, ranks, results, as_json)
        end_command(any_fits)
    if budget is None:
        fail(NO_BUDGET, 2)
    if ranks or selectors.asks_for_ranks(selector):
        from framebench.ranks.advice import advise as advise_over_ranks

        cases = select_over_ranks(selector, ranks, repeat_options(results, budget))
        end_command(advise_over_ranks(cases, budget, results, as_json))
    question = make_question(selector, budget, parameters, shape_options, current, sort)
    end_command(answer_from_records(question, current, machine, results, show_all, as_json))


def make_question(
    selector: str,
    budget: int,
    parameters: float | None,
    shape_options: ShapeOptions,
    current: str | None,
    sort: Literal["speed", "memory", "batch"],
) -> Question:
    """Return the question about records that the options of `advise` ask.

    Raises UnknownCase.
    """
    from framebench.budget.advise.advice import Question  # imports pandas

    parsed = parse_selector(selector)
    workload, scenario = parsed.workload or "transformer", parsed.scenario or "train"
    size = parsed.size or DEFAULT_SIZE
    frameworks, strategies = resolve_names(
        parsed._replace(workload=workload, scenario=scenario, size=size)
    )
    shape = None
    if parameters:
        shape = make_described_config(workload, parameters, shape_options)
        size = f"{spec.load_workload(workload).parameter_count(shape) / 1e6:,.0f}M"
    if current:
        check_current(current, scenario)
        if strategies:
            strategies |= {current}
    return Question(
        workload=workload,
        scenario=scenario,
        budget=budget,
        frameworks=frameworks,
        batch=parsed.batch,
        size=size,
        shape=shape,
        by=sort,
        strategies=strategies,
    )


def answer_for_device(
    selector: str,
    described: str | None,
    device: str,
    budget: int | None,
    ranks: int | None,
    results: Path,
    as_json: bool,
) -> bool | None:
    """Print what fits a device that is not here, and return whether anything does.

    Return None if nothing could be predicted. `described` is the size of a model that is only
    described. Raises UnknownCase and UnknownDevice.
    """
    from framebench.devices.fit.advice import (
        advise_on_device,
        fit_on_device,
        search_over_ranks,
    )

    if ranks and not selectors.names_batch(selector):
        question = parse_selector(selector)
        if described is not None:
            question = set_described_size(question, described)
        return search_over_ranks(question, ranks, device, budget, results, as_json)
    if ranks or selectors.asks_for_ranks(selector):
        options = f" --device {device}{repeat_options(results, budget)}"
        cases = select_over_ranks(selector, ranks, options, described or FULL_SIZE)
        if described is not None and cases[0].size != described:
            refuse_two_sizes(cases[0].size)
        return fit_on_device(
            cases, left_out={}, device_name=device, budget=budget, results=results, as_json=as_json
        )
    question = parse_selector(selector)
    is_described = described is not None
    if described is not None:
        question = set_described_size(question, described)
    return advise_on_device(question, device, budget, results, as_json, is_described)


def check_current(strategy: str, scenario: str) -> None:
    """Raise UnknownCase if the strategy is none of those that users train or evaluate with."""
    choices = list_used(scenario)
    if strategy not in choices:
        suggestions = selectors.suggest(choices, strategy)
        raise UnknownCase(
            f"--from {strategy}: {scenario} has no such strategy that people use; choose from: "
            f"{suggestions}"
        )


def select_over_ranks(
    selector: str, ranks: int | None, options: str, size: str = DEFAULT_SIZE
) -> list[Case]:
    """Return the cases over ranks that a selector names, of this size if it names none.

    Without a strategy, checkpointing with those that divide everything comes first. Prints a note
    if the batch is raised to one that the ranks divide. A selector without a batch ends the
    command, with an example that has one and ends with `options`. Raises UnknownCase.
    """
    parts = fill_rank_selector(selector, size)
    refuse_glob(parts["scenario"])
    if parts["batch"] in ("*", "b*"):
        fail(
            "strategies over ranks need the batch that is shared: framebench advise "
            f"'{complete_rank_selector(selector, ranks, parts['size'])}'{options}",
            2,
        )
    complete_selector = "/".join(parts.values())
    cases = match_cases(complete_selector, ranks)
    if parts["strategy"] == "*":
        cases = [*match_checkpointed_cases(complete_selector, ranks), *cases]
    say_raised_batch(parts["batch"], cases)
    return cases


def say_raised_batch(batch: str, cases: Sequence[Case]) -> None:
    """Say that a batch such as `b3` was raised to one that the ranks of the cases divide."""
    requested_batch, _, _ranks = batch.removeprefix("b").partition("x")
    first = cases[0]
    if str(first.batch) != requested_batch:
        say(
            f"a batch of {requested_batch} does not divide by {first.ranks} ranks: of "
            f"{first.batch} samples instead"
        )


def set_described_size(question: ParsedSelector, size: str) -> ParsedSelector:
    """Return the question about a model of this described size.

    Ends the command if the question names another size. Raises UnknownCase.
    """
    if question.size:
        refuse_two_sizes(question.size)
    workload = question.workload or "transformer"
    check_described(workload, size)
    return question._replace(workload=workload, size=size)


def refuse_two_sizes(size: str) -> NoReturn:
    """End the command, as its options describe another size than the case names."""
    fail(f"--parameters describe another size than {size}: leave one of them out", 2)


def resolve_names(parsed: ParsedSelector) -> tuple[tuple[str, ...], frozenset[str] | None]:
    """Return the frameworks, in their order, and the strategies; None if no strategy is named.

    Ends the command for a glob in the place of the scenario. Raises UnknownCase, with what is
    valid.
    """
    scenario = parsed.scenario or ""
    refuse_glob(scenario)
    framework = parsed.framework or "*"
    # without a strategy the baseline is selected, which all frameworks have
    strategy = parsed.strategy or find_baseline(scenario) or "*"
    cases = selectors.select(f"{parsed.workload}/{framework}/{scenario}/{strategy}/*/{parsed.size}")
    selected = {case.framework for case in cases}
    frameworks = tuple(name for name in FRAMEWORKS if name in selected)
    if not parsed.strategy:
        return frameworks, None
    return frameworks, frozenset(case.strategy for case in cases)


def refuse_glob(scenario: str) -> None:
    """End the command if the scenario is a glob, which may name several."""
    if set(scenario) & set("*?[{"):
        choices = ", ".join(SCENARIOS)
        fail(f"advise answers about one scenario, not {scenario!r}; choose from: {choices}", 2)


def make_described_config(workload: str, parameters: float, shape_options: ShapeOptions) -> Any:
    """Return the configuration with this many parameters, of a model that no workload declares.

    Its type is the workload's own. Raises UnknownCase.
    """
    make_config = spec.load_workload(workload).described
    if make_config is None:
        refuse_undescribed(workload)
    try:
        return make_config(parameters, *shape_options)
    except ValueError as error:
        raise UnknownCase(str(error)) from None


def answer_from_records(
    question: Question,
    current: str | None,
    machine: str | None,
    results: Path,
    show_all: bool,
    as_json: bool,
) -> bool:
    """Print the answer from records, and return whether anything fits."""
    # all of these import pandas
    from framebench.analysis.peaks import read_evidence
    from framebench.analysis.results import NoRecords, Results
    from framebench.budget.advise import show
    from framebench.budget.advise.advice import advise, select_relevant

    recorded = Results(results)

    @cache  # called to choose the machines, and for the answer
    def read_machine(name: str) -> tuple[list[Row], Blocks]:
        return read_evidence(results, name, question.workload, question.scenario)

    def count_answers(name: str) -> tuple[int, ...]:
        """Count a machine's rows at the batch in question, and at any batch."""
        machine_rows, _blocks = read_machine(name)
        relevant = select_relevant(machine_rows, question)
        at_batch = [row for row in relevant if row.batch == question.batch]
        return len(at_batch), len(relevant)

    rows_of_machines, blocks_by_machine = [], {}
    for name in find_answering_machines(recorded, machine, count_answers):
        machine_rows, blocks_by_machine[name] = read_machine(name)
        rows_of_machines.append(machine_rows)
    try:
        advice = advise(rows_of_machines, question, recorded.searches)
    except NoRecords as error:
        hints = suggest_prediction(question, results) + suggest_measuring(error.selector, results)
        fail(f"{error}{hints}", 1)
    changes = []
    if current:
        changes = list_changes(advice, current, blocks_by_machine[advice.machine], results)
    if as_json:
        echo(json.dumps(show.make_json(advice, changes), indent=1))
        return bool(advice.fitting)
    options = repeat_options(results, question.budget)
    print_sentence(show.describe_answer(advice, options))
    for table in show.make_tables(advice, show_all):
        table.terminal(out)
    if question.shape is not None:
        say(f"{question.size}: taken for {describe_shape(question.shape)}")
    for note in show.list_notes(advice, changes, show_all, options):
        print_sentence(note)
    return bool(advice.fitting)


def list_changes(
    advice: BudgetAdvice, current: str, blocks: Blocks, results: Path
) -> list[SuggestedChange]:
    """Return for each framework the change from the strategy in use that costs least speed.

    Frameworks without records of that strategy are left out. Ends the command if all are.
    """
    from framebench.budget.advise.advice import find_change  # imports pandas

    changes = []
    for framework in advice.question.frameworks:
        change = find_change(advice, framework, current, blocks)
        if change:
            changes.append(change)
    if not changes:
        frameworks = ", ".join(advice.question.frameworks)
        selector = replace(advice.question, strategies=frozenset({current})).selector
        hint = suggest_measuring(selector, results)
        fail(f"no record says anything of {current} in {frameworks}{hint}", 1)
    return changes


def suggest_prediction(question: Question, results: Path) -> str:
    """Return the end of a message: the command that computes the least that a case can need.

    It is "" for a model that is only described, and for a scenario without a baseline.
    """
    strategy = find_baseline(question.scenario)
    if question.strategies and strategy not in question.strategies:
        strategy = min(question.strategies)
    if question.shape or not strategy:
        return ""
    base = spec.load_workload(question.workload).preset(question.size).base
    case = question.make_case(question.frameworks[0], strategy, question.batch or base)
    return (
        f"; the least that it can need, without measuring: framebench predict {case.id}"
        f"{repeat_options(results)}"
    )


def print_sentence(sentence: str) -> None:
    """Print a sentence on one line, however long it is."""
    out.print(sentence, markup=False, highlight=False, soft_wrap=True)
