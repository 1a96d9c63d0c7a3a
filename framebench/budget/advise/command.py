"""Commands that answer from records what to use: `advise`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, cast

import typer

from framebench.cli.shared import BUDGET, AsJson, Machine, Results, answering, app, fail, out, parse_bytes, parts, say
from framebench.engine import runner
from framebench.models import spec
from framebench.ranks.command import advise as advise_over_ranks
from framebench.strategies.registry import SCENARIOS, find, in_use, names
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import selectors
from framebench.suite.case import DEFAULT_SIZE, UnknownCase

if TYPE_CHECKING:
    from framebench.analysis.blocks import Blocks
    from framebench.budget.advise.advice import Advice, Change, Question

ASKED = "Such as transformer/*/train/*/b4/cpu. Without a batch, the largest that fits; with --device the usual one."


NO_OTHER_MODEL = "--device predicts this suite's own models: leave --from, --machine, --parameters and --ranks out"
DESCRIBED = "; sizes full, full-350m and full-1b are Transformers for it"
SORTS = "`speed`: fastest first. `memory`: smallest peak first. `batch`: largest batch first."


def _checked_sort(sort: str) -> str:
    if sort not in ("speed", "memory", "batch"):
        fail(f"--sort {sort!r}: choose speed, memory or batch", 2)
    return sort


def _number_of(text: str) -> float:
    """`124M`, `1.3B` or `124e6`. Raises typer.BadParameter."""
    matched = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)([kKMB]?)", text.strip())
    with suppress(ValueError):
        if matched and (count := float(matched[1]) * {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}[matched[2]]) >= 1:
            return count
    raise typer.BadParameter(f"{text!r} is no number of parameters: write for instance 124M, 1.3B or 124e6")


@app.command(rich_help_panel=BUDGET)
def advise(
    budget: Annotated[
        str | None, typer.Option(help="Memory for tensors and workspaces, such as 1GiB. Default: all that --device has.")
    ] = None,
    asked: Annotated[str, typer.Argument(metavar="CASES", help=ASKED)] = "transformer/*/train",
    have: Annotated[str | None, typer.Option("--from", help="What you use now: a strategy, or a full case id.")] = None,
    machine: Machine = None,
    parameters: Annotated[
        float | None, typer.Option(parser=_number_of, metavar="N", help="Describe a model by its parameters, such as 124M.")
    ] = None,
    sequence: Annotated[int | None, typer.Option(min=1, help="Tokens per sequence of that model. Default: 1024.")] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Width of that model.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers of that model.")] = None,
    vocabulary: Annotated[int | None, typer.Option(min=1, help="Vocabulary of that model. Default: 50304.")] = None,
    device: Annotated[
        str | None, typer.Option(help="A device that is not here, such as a100-40gb. `framebench devices` lists them.")
    ] = None,
    ranks: Annotated[int | None, typer.Option(help="Predict strategies over this many ranks. The budget is per rank.")] = None,
    results: Results = runner.RESULTS,
    every: Annotated[
        bool, typer.Option("--all", help="Also show the rest, strategies that compute something else, and what is too large.")
    ] = False,
    sort: Annotated[str, typer.Option(help=SORTS, callback=_checked_sort)] = "speed",
    as_json: AsJson = False,
) -> None:
    """Which strategies fit into a budget of memory? Measured where there are records, else predicted."""
    from framebench.budget.advise import advice

    given = parts(asked)
    if device is not None:
        if have or machine or parameters or ranks:
            fail(NO_OTHER_MODEL + DESCRIBED * bool(parameters), 2)
        from framebench.devices.fit.advice import advise_on_device

        raise typer.Exit(advise_on_device(given, device, parse_bytes(budget) if budget else None, results, as_json))
    if budget is None:
        fail("how much memory? --budget 16GiB, or --device a100-40gb for one that is not here", 2)
    workload, scenario = given.workload or "transformer", given.scenario or "train"
    batch, size = given.batch, given.size or DEFAULT_SIZE
    chosen, strategies = checked(workload, given.framework or "*", scenario, size, given.strategy)
    if ranks is not None:
        if given.strategy:
            fail(f"--ranks looks among all strategies over ranks: leave {given.strategy!r} out", 2)
        if have or machine or parameters:
            fail("--ranks predicts this suite's own models: leave --from, --machine and --parameters out", 2)
        _answer_over_ranks(workload, chosen, scenario, batch, size, ranks, budget, as_json)
    shape = _shape(workload, parameters, sequence, width, layers, vocabulary)
    question = advice.Question(
        workload, scenario, parse_bytes(budget), chosen, batch, size if shape is None else _millions(workload, shape), shape,
        cast(Literal["speed", "memory", "batch"], sort), strategies and strategies | _now(have),
    )  # fmt: skip
    raise typer.Exit(_answered(question, have, machine, results, every, as_json))


def _answer_over_ranks(
    workload: str, frameworks: tuple[str, ...], scenario: str, batch: int | None, size: str, ranks: int, budget: str,
    as_json: bool,
) -> NoReturn:  # fmt: skip
    if not batch:
        example = f"'{workload}/*/{scenario}/*/b8' --budget {budget} --ranks {ranks}"
        fail(f"--ranks needs the batch that is shared: framebench advise {example}", 2)
    raise typer.Exit(advise_over_ranks(workload, frameworks, scenario, batch, size, ranks, parse_bytes(budget), as_json))


def _shape(
    workload: str, parameters: float | None, sequence: int | None, width: int | None, layers: int | None, vocabulary: int | None
) -> Any:
    """Of a model that is only described: by its number of parameters, and what else is said."""
    if parameters:
        return _shape_of(workload, parameters, sequence or 1024, width, layers, vocabulary or 50304)
    options = {"--sequence": sequence, "--width": width, "--layers": layers, "--vocabulary": vocabulary}
    if without := [name for name, value in options.items() if value is not None]:
        fail(f"{', '.join(without)}: of a model that is only described; say how many --parameters it has, such as 124M", 2)
    return None


def _answered(question: Question, have: str | None, machine: str | None, results: Path, every: bool, as_json: bool) -> bool:
    """Print what the records say. Returns whether nothing fits."""
    from framebench.analysis.peaks import read_evidence
    from framebench.analysis.results import NoRecords
    from framebench.analysis.results import Results as Folder
    from framebench.budget.advise import advice, show

    folder = Folder(results)
    about = {name: read_evidence(results, name, question.workload, question.scenario) for name in answering(folder, machine)}
    rows = [found for found, _ in about.values()]
    try:
        advised = advice.advise(rows, question, folder.searches)
        smaller = question.batch and not advised.fitting
        roomiest = advice.largest_that_fits(rows, question, folder.searches) if smaller else None
    except NoRecords as error:
        fail(str(error), 1)
    changes = _changes_from(have, advised, question, about[advised.machine][1]) if have else []
    if as_json:
        typer.echo(json.dumps(show.as_json(advised, changes, roomiest), indent=1))
    else:
        _tell(show.answer(advised, roomiest))
        for table in show.tables(advised, every):
            table.terminal(out)
        if question.shape is not None:
            shape_text = ", ".join(f"{name} {value:,}" for name, value in asdict(question.shape).items() if value)
            say(f"{question.size}: taken for {shape_text}")
        _tell(show.sentences(advised, changes, every))
    return not advised.fitting


def _now(have: str | None) -> set[str]:
    """The strategy that `--from` names, alone or in a case."""
    return {selectors.parse(have).strategy if "/" in have else have} if have else set()


def _tell(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        out.print(sentence, markup=False, highlight=False, soft_wrap=True)


def checked(
    workload: str, framework: str, scenario: str, size: str, strategy: str | None
) -> tuple[tuple[str, ...], frozenset[str] | None]:
    """The frameworks, in their order, and the strategies if some are named. Raises UnknownCase, with what is valid."""
    if set(scenario) & set("*?[{"):
        fail(f"advise answers about one scenario, and {scenario!r} may be several; choose from: {', '.join(SCENARIOS)}", 2)
    named = selectors.select(f"{workload}/{framework}/{scenario}/{strategy or _baseline(scenario)}/*/{size}")
    frameworks = {case.framework for case in named}
    return tuple(f for f in FRAMEWORKS if f in frameworks), frozenset(case.strategy for case in named) if strategy else None


def _baseline(scenario: str) -> str:
    return SCENARIOS[scenario].baseline if scenario in SCENARIOS else "*"


def _shape_of(workload: str, parameters: float, sequence: int, width: int | None, layers: int | None, vocabulary: int) -> Any:
    """The configuration of a model that is only described. Raises UnknownCase."""
    described = spec.workload(workload).described
    if described is None:
        able = [name for name in spec.names() if spec.workload(name).described]
        raise UnknownCase(f"{workload} cannot be described by its parameters alone; choose from: {', '.join(able)}")
    try:
        return described(parameters, sequence, width, layers, vocabulary)
    except ValueError as error:
        raise UnknownCase(str(error)) from None


def _millions(workload: str, shape: Any) -> str:
    return f"{spec.workload(workload).parameter_count(shape) / 1e6:,.0f}M"


def _changes_from(have: str, advised: Advice, question: Question, timed: Blocks) -> list[Change]:
    """From a strategy in every framework asked for, or from one case. Raises UnknownCase."""
    from framebench.budget.advise import advice

    framework, strategy = "*", have
    if "/" in have:
        case = selectors.parse(have)
        framework, strategy = case.framework, case.strategy
        if (case.workload, case.scenario) != (question.workload, question.scenario):
            asked = f"{question.workload}/*/{question.scenario}"
            raise UnknownCase(f"--from {have} is of another workload or scenario than {asked}")
    if "/" not in have and not any(fnmatchcase(name, have) for name in names(question.scenario)):
        choices = selectors.few(in_use(question.scenario), have)
        raise UnknownCase(f"--from {have}: {question.scenario} has no such strategy; choose from: {choices}")
    # in any size that is declared, as a described model has none
    named = {c.strategy for c in selectors.select(f"{question.workload}/{framework}/{question.scenario}/{strategy}/*/tiny")}
    if len(named) > 1:
        raise UnknownCase(f"--from {have} names {len(named)} strategies, not one: {selectors.few(sorted(named), have)}")
    (strategy,) = named
    if find(question.scenario, strategy).only_for_claims:
        choices = ", ".join(in_use(question.scenario))
        raise UnknownCase(f"--from {have} only tests an article's sentence, so advice leaves it out; choose from: {choices}")
    wanted = [f for f in question.frameworks if framework in ("*", f)]
    changes = [c for f in wanted if (c := advice.change(advised, f, strategy, timed))]
    if not changes:
        fail(f"no record says anything of {have} in {', '.join(wanted) or framework}: framebench run measures it", 1)
    return changes
