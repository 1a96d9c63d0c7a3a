"""A model of the user's own: `try`."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from framebench.budget.max_batch.measure import search_largest_batch
from framebench.cli.shared import (
    MEASURE,
    AsJson,
    Env,
    app,
    err,
    fail,
    file_to_write,
    folder_to_fill,
    measuring,
    out,
    parse_bytes,
    report_failures,
    say,
)
from framebench.engine import blocks as measured
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.progress import CaseProgress
from framebench.engine.timed_process import Arm
from framebench.records.record import ROUNDS, Record
from framebench.records.search import Fit
from framebench.suite.case import Case
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.trial import UserModel
from framebench.user_model import on_device
from framebench.user_model.look import FirstLook, compiles
from framebench.user_model.mathematics import Float64Checks
from framebench.user_model.measure import measure_blocks, notes

FOLDER = runner.RESULTS / "own"
BLOCKS = 3  # the fewest that give an interval
COMPILER_S = 80.0  # of a small model under torch.compile, and of the search for its kernels

File = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="a Python file; docs/try.md says what it needs")]
Batch = Annotated[int, typer.Option(min=1, help="samples of one step")]
Scenario = Annotated[str, typer.Option(help="train, or eval: what inference takes")]
Strategies = Annotated[str | None, typer.Option(help="some, such as amp_bf16,checkpoint; by default all that apply")]
Blocks = Annotated[
    int | None, typer.Option(min=1, help="fresh processes of each strategy; by default 3, and more as --minutes says")
]
Minutes = Annotated[
    float, typer.Option(min=0, help="without --blocks: more, until ratios of times are decided, that end within so many")
]
Rounds = Annotated[int, typer.Option(min=0, help="turns of each process in a block; 0: memory alone, no times")]
TimeLimit = Annotated[float, typer.Option(min=0.01, help="seconds for each of a strategy's processes")]
Framework = Annotated[str | None, typer.Option(help="where the file imports several")]
Folder = Annotated[Path | None, typer.Option(file_okay=False, help="folder of the records; by default results/own/NAME")]
Budget = Annotated[str | None, typer.Option(help="such as 16GiB: which strategies fit, and which of them is fastest")]
MaxBatch = Annotated[bool, typer.Option("--max-batch", help="the largest batch within the budget, for each strategy")]
OnDevice = Annotated[
    str | None, typer.Option(help="one that is not here, such as rtx4090-24gb: nothing runs; see framebench devices")
]
Figure = Annotated[Path | None, typer.Option(callback=file_to_write, help="an SVG of memory against speed")]
Html = Annotated[Path | None, typer.Option(callback=folder_to_fill, help="a folder for a page with all of it")]


COMPILED = "what is not in this table yet follows; what compiles takes a minute or more each, and --strategies leaves it out"


@app.command("try", rich_help_panel=MEASURE)
def try_(
    file: File,
    batch: Batch = 8,
    scenario: Scenario = "train",
    strategies: Strategies = None,
    blocks: Blocks = None,
    minutes: Minutes = 10.0,
    rounds: Rounds = 8,
    time_limit: TimeLimit = 900.0,
    framework: Framework = None,
    results: Folder = None,
    env: Env = None,
    budget: Budget = None,
    max_batch: MaxBatch = False,
    device: OnDevice = None,
    figure: Figure = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Your own model under every strategy that applies, verified against its own float32 baseline: the file has model(),
    batch(n) and loss(output, target), in PyTorch, Flax or Jittor."""
    budget_bytes = parse_bytes(budget) if budget else None
    _refuse(rounds, max_batch and budget is None and device is None)
    follows = "step times follow; what is not in this table yet, too" if rounds else COMPILED
    looked = (lambda records: None) if as_json else partial(show_first, budget_bytes=budget_bytes, follows=follows)
    try:
        model = trial.look(file, batch, framework, scenario)
        where = results or FOLDER / model.folder
        if device is not None:
            raise typer.Exit(on_device.fits(model, strategies, device, budget_bytes, where, env, as_json))
        options, fits = runner.Options(rounds=rounds, time_limit_s=time_limit, first_alone=False), list[Fit]()
        ended = partial(show, budget_bytes=budget_bytes, fits=fits, figure=figure, html=html, as_json=as_json)
        with trial.known(model, budget_bytes), measuring(where, lambda: f"; what was measured is kept in {where}"):
            seconds = 0 if blocks else minutes * 60
            records, left_out = measure(model, strategies, options, blocks or BLOCKS, seconds, where, env, looked, ended)
            if budget_bytes and max_batch:
                fits = largest(records, budget_bytes, trial.environment(model, env, say), options, where)
    except Fault as error:
        fail(str(error), 2)
    show(records, left_out, budget_bytes, fits, figure, html, as_json)
    raise typer.Exit(report_failures([record.status for record in records], "records"))


def _refuse(rounds: int, without_budget: bool) -> None:
    """What would give no answer, before anything runs."""
    if 0 < rounds < ROUNDS:
        enough = f"choose {ROUNDS} or more, or 0: memory alone"
        fail(f"--rounds {rounds}: times of fewer than {ROUNDS} rounds do not count; {enough}", 2)
    if without_budget:
        fail("--max-batch is the largest batch within a budget: say which, such as --budget 16GiB", 2)


def measure(
    model: UserModel,
    strategies: str | None,
    options: runner.Options,
    blocks: int,
    seconds: float,
    where: Path,
    env: str | None,
    looked: Callable[[list[Record]], None] = lambda records: None,
    ended: Callable[[list[Record], dict[str, str]], None] = lambda records, left_out: None,
) -> tuple[list[Record], dict[str, str]]:
    """The records of this session, and why strategies were left out. `looked` gets the first of them, without times, and
    `ended` what there is when all ends early. Raises Fault."""
    began, environment = time.monotonic(), trial.environment(model, env, say)
    named = strategies.split(",") if strategies else None
    trial.cases(model, named)  # a strategy that does not exist is told before anything runs
    seen = surveyed(model, environment, options)
    for line in (trial.in_short(model, seen["facts"]), *notes(seen["facts"])):
        say(line)
    cases, left_out = trial.cases(model, named)
    if slow := {case.strategy: why for case in cases if blocks > 1 and (why := runner.too_slow(case))}:
        say(f"in the first block alone: {', '.join(slow)}: {next(iter(slow.values()))}")
    run = measured.Run(secrets.token_hex(6), options, where)
    records = lambda: [record for case in cases for record in run.records(Arm(case, environment))]  # noqa: E731
    try:
        with expected(cases, where, blocks, options, time.monotonic() - began) as run.listener, run:
            run.check_mathematics = Float64Checks(model, [Arm(case, environment) for case in cases], seen["held"])
            look = FirstLook(run, began, seen["held"], looked)
            look.look_at([Arm(case, environment) for case in cases])
            if options.rounds:
                measure_blocks([Arm(case, environment) for case in cases], run, blocks, seconds, partial(decided, run))
    except KeyboardInterrupt:
        if done := records():
            ended(done, left_out)
        raise
    return records(), left_out


def expected(cases: list[Case], where: Path, blocks: int, options: runner.Options, survey_s: float) -> CaseProgress:
    """Where it was never measured a process of a strategy takes about as long as the one that surveyed the baseline. What is
    compiled has a second one. They are built beside each other, and what is built takes its turns in little time."""
    guesses = {case: survey_s + (survey_s + COMPILER_S) * compiles(case) for case in cases}
    return CaseProgress(cases, where, err, 1 + blocks * bool(options.rounds), guesses=guesses, at_once=len(options.cores()))


def surveyed(model: UserModel, environment: Environment, options: runner.Options) -> dict[str, Any]:
    """Return what the reference's process found, and show its phases. Raises Fault."""
    with err.status(f"{model.file.name}: reference") as status:
        return trial.reference(model, environment, options, lambda phase: status.update(f"{model.file.name}: {phase}"))


def decided(run: measured.Run, left: list[Arm]) -> bool:
    """Whether the times of these arms need no more blocks."""
    from framebench.analysis import frames

    rows = frames.frame([record for arm in left for record in run.records(arm)])
    return bool(frames.decided(rows).all())


def largest(
    records: list[Record], budget_bytes: int, environment: Environment, options: runner.Options, where: Path
) -> list[Fit]:
    """A search for each strategy that came out right."""
    cases = dict.fromkeys(record.parsed for record in records if record.usable)
    searches = []
    for case in cases:
        with err.status(case.id) as status:
            told = lambda at, phase: status.update(f"{at.id}: {phase}")  # noqa: E731
            smallest = replace(case, batch=case.plan.micro_batches)
            found = search_largest_batch(smallest, budget_bytes, environment, options=options, results=where, progress=told)
            searches.append(found)
        say(f"{case.strategy}: {searches[-1].answer}")
    return searches


def show_first(records: list[Record], budget_bytes: int | None, follows: str) -> None:
    """Memory and verification, as soon as they are there."""
    from framebench.analysis import frames
    from framebench.user_model import table as report

    told = report.beside(records)
    rows = report.with_libraries(frames.frame(records), told)
    report.first(rows, told).terminal(err)
    for sentence in [*report.lowest(rows), *([report.within(rows, budget_bytes)] if budget_bytes else []), follows]:
        say(sentence)


def show(
    records: list[Record], left_out: dict[str, str], budget_bytes: int | None, fits: list[Fit], figure: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """One table, what fits, and what is not in it; as JSON the rows of `framebench show --json`."""
    from framebench.analysis import frames
    from framebench.user_model import table as report

    beside = report.beside(records)
    rows = report.with_libraries(frames.frame(records), beside)
    if told := report.contradiction(rows):
        fail(told, 1)
    tables = [
        report.table(rows, left_out, beside),
        *([report.batches(fits)] if fits else []),
    ]
    fitting = [report.within(rows, budget_bytes)] if budget_bytes else []
    checked = report.checked_in_float64(records)
    sentences = [*report.lowest(rows), *fitting, report.verdicts(records), *checked, *report.unproven(records)]
    if figure or html:
        from framebench.analysis.figures import fronts, page

        drawn = fronts.pareto(report.named(rows))
        if drawn is None:
            say("nothing to draw: a point needs a ratio of times with an interval, which takes 3 blocks or more")
        elif figure:
            figure.write_text(page.svg(drawn))
        if html:
            from framebench.publish.site.user_page import write_user_page

            say(f"wrote {write_user_page(html, tables, sentences, drawn)}")
    for sentence in sentences:
        say(sentence)
    if as_json:
        for why, names in report.by_reason(left_out).items():
            say(f"left out: {', '.join(names)}: {why}")
        typer.echo(json.dumps([vars(row) for row in frames.rows(records)], indent=1, default=lambda moment: moment.isoformat()))
        return
    for table in tables:
        table.terminal(out)
