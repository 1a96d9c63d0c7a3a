"""The command `try`: a user's model under every strategy that applies."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from framebench.budget.max_batch.measure import search_largest_batch
from framebench.budget.max_batch.on_device import fit_file
from framebench.cli.shared import (
    MEASURE,
    MOST_S,
    AsJson,
    Env,
    app,
    check_file_option,
    check_folder_option,
    end_command,
    err,
    fail,
    measuring,
    parse_bytes,
    report_failures,
    say,
    show_progress,
    show_work,
)
from framebench.engine import blocks as measured
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.progress import CaseProgress
from framebench.engine.session import Session
from framebench.engine.timed_process import Variant
from framebench.explain import measure as explain
from framebench.explain.record import Explanation
from framebench.records import provenance, store
from framebench.records.record import Record
from framebench.records.record_base import ROUNDS
from framebench.records.search import Fit
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.opening import USUAL_TIME, survey_baseline
from framebench.user_file.trial import UserModel
from framebench.user_model.look import take_first_look
from framebench.user_model.mathematics import Float64Checks
from framebench.user_model.measure import Deadline, list_remarks, measure_blocks

if TYPE_CHECKING:
    from framebench.user_model.saved import SavedPeaks

FOLDER = runner.RESULTS / "own"
MINUTES = 10.0  # after which no block is added, unless the user says otherwise
NO_TIME = "no time was left"
BLOCKS = 3  # the fewest that give an interval
COMPILER_S = 80.0  # of a small model under torch.compile, and of the search for its kernels
COMPILED = (
    "what is not in this table yet follows; what compiles takes a minute or more each, and "
    "--strategies leaves it out"
)
FOLLOWS = "step times follow; what is not in this table yet, too"

File = Annotated[
    Path,
    typer.Argument(
        exists=True,
        dir_okay=False,
        help="A Python file; docs/try.md says what it needs.",
    ),
]
Batch = Annotated[int, typer.Option(min=1, help="Samples of one step.")]
Scenario = Annotated[str, typer.Option(help="train, or eval for inference.")]
Strategies = Annotated[
    str | None,
    typer.Option(help="Strategies, such as amp_bf16,checkpoint. Default: all that apply."),
]
Blocks = Annotated[
    int | None,
    typer.Option(min=1, help="Blocks of fresh processes. Default: 3, and more as --minutes says."),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=MOST_S // 60,
        help="End after so many minutes, and say what is left; the same command goes on there. "
        "Default: no end. Blocks are then added for up to 10 minutes while ratios of times are "
        "undecided.",
    ),
]
Rounds = Annotated[
    int,
    typer.Option(min=0, help="Rounds per block. 0 measures memory only."),
]
TimeLimit = Annotated[
    float,
    typer.Option(min=0.01, max=MOST_S, help="Seconds for each of a strategy's processes."),
]
Framework = Annotated[str | None, typer.Option(help="The framework, if the file imports several.")]
Folder = Annotated[
    Path | None,
    typer.Option(file_okay=False, help="Folder of the records. Default: results/own/NAME."),
]
Budget = Annotated[
    str | None,
    typer.Option(help="A limit such as 16GiB: say which strategies fit, and which is fastest."),
]
MaxBatch = Annotated[
    bool,
    typer.Option(
        "--max-batch",
        help="Also search each strategy's largest batch within the budget or on the device.",
    ),
]
OnDevice = Annotated[
    str | None,
    typer.Option(
        help="Predict for a GPU that is not here, such as rtx4090-24gb, and run nothing. "
        "`framebench devices` lists them. Answers are kept with the records."
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        callback=check_file_option,
        help="Write the peaks, and what holds the baseline's, to this file for --compare.",
    ),
]
Compare = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="Compare with peaks of --save. Exit code 1: one grew by more than --threshold.",
    ),
]
Threshold = Annotated[str, typer.Option(help="Growth of a peak that --compare accepts.")]
Figure = Annotated[
    Path | None,
    typer.Option(
        callback=check_file_option,
        help="An SVG file for memory against speed, or for peaks if there are no times.",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(callback=check_folder_option, help="A folder for a page with all results."),
]


@app.command("try", rich_help_panel=MEASURE)
def try_(
    file: File,
    batch: Batch = 8,
    scenario: Scenario = "train",
    strategies: Strategies = None,
    blocks: Blocks = None,
    minutes: Minutes = None,
    rounds: Rounds = 8,
    time_limit: TimeLimit = 900.0,
    framework: Framework = None,
    results: Folder = None,
    env: Env = None,
    budget: Budget = None,
    max_batch: MaxBatch = False,
    device: OnDevice = None,
    save: Save = None,
    compare: Compare = None,
    threshold: Threshold = "2%",
    figure: Figure = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Your own model under every strategy that applies, verified against its own float32 baseline:
    the file has model(), batch(n) and loss(output, target), in PyTorch, Flax or Jittor.
    """
    if 0 < rounds < ROUNDS:
        fail(
            f"--rounds {rounds}: times of fewer than {ROUNDS} rounds do not count; choose "
            f"{ROUNDS} or more, or 0: memory alone",
            2,
        )
    if max_batch and budget is None and device is None:
        fail(
            "--max-batch is the largest batch within a budget: say which, such as --budget 16GiB",
            2,
        )
    # they read pandas, which `framebench -h` need not wait for
    from framebench.user_model import report, saved

    budget_bytes = parse_bytes(budget) if budget else None
    named = strategies.split(",") if strategies else None
    fits: list[Fit] = []

    def show_first(records: list[Record]) -> None:
        if not as_json:
            report.show_first_look(records, budget_bytes, FOLLOWS if rounds else COMPILED)

    def show_all(records: list[Record], left_out: dict[str, str]) -> None:
        report.show(records, left_out, budget_bytes, fits, figure, html, as_json)

    try:
        allowed = saved.parse_threshold(threshold)
        earlier = saved.read_saved(compare) if compare else None
        if html:
            report.check_page_folder(html)
        model = trial.inspect_file(file, batch, framework, scenario)
        where = results or FOLDER / model.folder
        if device is not None:
            any_fits = fit_file(
                model=model,
                strategies=named,
                device_name=device,
                budget=budget_bytes,
                largest_batch=max_batch,
                results=where,
                env=env,
                as_json=as_json,
            )
            end_command(any_fits)
        options = runner.Options(rounds=rounds, time_limit_s=time_limit, first_alone=False)
        sizes = measure_sizes(where)
        with (
            trial.use_model(model, budget_bytes),
            measuring(where, lambda: describe_kept(where, sizes, save)),
        ):
            trial.list_cases(model, named)  # refuses an unknown strategy before anything runs
            environment = trial.choose_environment(model, env, say)
            limit_s = None if minutes is None else 60 * minutes
            blocks_s = 60 * MINUTES if limit_s is None else limit_s
            records, left_out, session, is_complete = measure(
                model,
                named,
                options,
                blocks or BLOCKS,
                None if blocks else blocks_s,
                where,
                environment,
                show_first,
                show_all,
                limit_s,
            )
            if budget_bytes and max_batch and is_complete:
                fits += search_batches(records, budget_bytes, environment, options, where)
            peaks = None
            if is_complete:
                if save or compare:
                    peaks = saved.collect_peaks(records, explain_baseline(model, environment))
                end_session(session, where, peaks, save)
        show_all(records, left_out)
        has_failed = report_failures([record.status for record in records], "records")
        if not is_complete:
            say(describe_rest(left_out, minutes))
            has_failed |= bool(save or compare)  # a check that did not end is not passed
        if peaks:
            saved.check_not_empty(peaks)
            has_failed |= saved.report_missing(named or [], left_out)
            if earlier and saved.report_growth(earlier, peaks, allowed):
                has_failed = True
            if save:
                say(f"wrote {save}")
    except Fault as error:
        fail(str(error), 2)
    end_command(succeeded=not has_failed)


def explain_baseline(model: UserModel, environment: Environment) -> Explanation | None:
    """Return what holds the baseline's peak; where that cannot be told, print why, return None."""
    with show_work(f"{model.file.name}: what holds the peak"):
        try:
            return explain.explain(model.baseline, environment)
        except explain.Unexplained as error:
            say(f"layers are not compared: {error}")
            return None


def measure_sizes(where: Path) -> dict[str, int]:
    """Return the bytes of each file of records in a results folder."""
    return {file: Path(file).stat().st_size for file in store.list_files(where)}


def end_session(
    session: Session, where: Path, peaks: SavedPeaks | None = None, save: Path | None = None
) -> None:
    """Write the peaks to the file of `--save`, if there are any, and end the session.

    The session ends last: a command that is killed before can be called again, and goes on with
    the records. Raises OSError.
    """
    if save and peaks and peaks.peaks:
        store.replace_text(peaks.model_dump_json(indent=1) + "\n", save)
    session.close(where)


def describe_kept(where: Path, sizes: Mapping[str, int], save: Path | None = None) -> str:
    """Return the end of a message: where what was measured is kept, if anything.

    `sizes` are those of the files of records before (`measure_sizes`). Their times say less: a
    clock may be set back meanwhile. `save` is the file of `--save`.
    """
    if measure_sizes(where) != sizes:
        writes = f" and writes {save} at its end" if save else ""
        return (
            f"; what was measured is kept in {where}, and the same command goes on from there"
            f"{writes}, unless the file was changed"
        )
    return "; nothing was measured yet"


def show_nothing(*results: object) -> None:
    """Show no results before the end."""


def measure(
    model: UserModel,
    strategies: list[str] | None,
    options: runner.Options,
    blocks: int,
    seconds: float | None,
    where: Path,
    environment: Environment,
    show_first: Callable[[list[Record]], None] = show_nothing,
    show_interrupted: Callable[[list[Record], dict[str, str]], None] = show_nothing,
    limit_s: float | None = None,
) -> tuple[list[Record], dict[str, str], Session, bool]:
    """Measure strategies of a user's model.

    Return the records of this session, for each strategy that was left out the reason, the session,
    and whether all was measured. The session is then to be closed when nothing more is asked of it.
    One that an interrupted call left goes on.

    Args:
        model: The user's model.
        strategies: Their names, or None for all that apply.
        options: Of the measurement.
        blocks: How many blocks to measure.
        seconds: When to stop, after the beginning. Before, blocks are added while ratios are
            undecided.
        where: The folder of the records.
        environment: The framework's environment.
        show_first: Called with the first records, which have no times.
        show_interrupted: Called with the records so far if the user interrupts.
        limit_s: Seconds after the beginning in which all must end; what comes first is measured in
            any case.

    Raises Fault.
    """
    began = time.monotonic()
    announce(model, strategies)
    survey = survey_baseline(model, environment, options)
    for remark in list_remarks(survey["facts"]):
        say(remark)
    cases, left_out = trial.list_cases(model, strategies)
    if blocks > 1:
        report_slow_cases(cases)
    variants = [Variant(case, environment) for case in cases]
    session = open_session(model, environment, options, where, survey["facts"])
    run = measured.Run(session.id, options, where)
    unmeasured = [variant for variant in variants if not run.get_records(variant)]
    count = len(variants) - len(unmeasured)
    if count:
        say(f"going on after an interruption: {format_count(count, 'case')} measured already")

    def list_records() -> list[Record]:
        return [record for variant in variants for record in run.get_records(variant)]

    try:
        survey_s = time.monotonic() - began
        progress = make_progress(cases, where, blocks, options, survey_s, session.id)
        with progress as run.listener, run:
            to_check = list(dict.fromkeys([variants[0], *unmeasured]))  # the baseline first
            checks_ahead = limit_s is None  # else they could take all of the time
            run.check_mathematics = Float64Checks(to_check, survey["held"], checks_ahead)
            limit = Deadline(None if limit_s is None else began + limit_s, progress)
            take_first_look(variants, run, survey["held"], show_first, limit.allows)
            if options.rounds and limit.allows(variants):
                deadline = limit.moment if seconds is None else began + seconds
                is_enough = accept_any if seconds is None else partial(are_decided, run)
                blocks_made = measure_blocks(variants, run, blocks, deadline, is_enough)
                if 0 < blocks_made < blocks and limit_s is not None:
                    limit.is_over = True
                elif 0 < blocks_made < blocks and seconds is not None:
                    say(
                        f"the time is over after {blocks_made} of {blocks} blocks, so ratios of "
                        f"times have no interval: --blocks {blocks}, or fewer --strategies"
                    )
    except KeyboardInterrupt:
        records = list_records()
        if records:
            show_interrupted(records, left_out)
        raise
    if limit.is_over:
        for variant in variants:
            if not run.get_records(variant):
                left_out[variant.case.strategy] = NO_TIME
    return list_records(), left_out, session, not limit.is_over


def describe_rest(left_out: dict[str, str], minutes: float | None) -> str:
    """Return what `--minutes` left no time for, and the command that goes on."""
    names = [name for name, reason in left_out.items() if reason == NO_TIME]
    rest = ", ".join(names) if names else "times"
    command = shlex.join(["framebench", *sys.argv[1:]])
    return (
        f"--minutes {minutes:g} are over before everything was measured; left: {rest}. The same "
        f"command goes on there: {command}"
    )


def accept_any(variants: list[Variant]) -> bool:
    """Return that so many blocks are enough, whatever was measured."""
    return True


def open_session(
    model: UserModel,
    environment: Environment,
    options: runner.Options,
    where: Path,
    facts: dict[str, Any],
) -> Session:
    """Return the session that an interrupted call left, or a new one.

    It is one of the same code of framebench and of the user, as `facts` tell of the latter, in the
    same environment. Which strategies are asked for does not matter: each has its own records.
    """
    code = f"{provenance.name_code()} {environment.name} {facts.get('sources', '')}"
    question = [str(model.file), model.scenario, model.batch, options.rounds]
    return Session.open(where, code, f"try {json.dumps(question)}")


def announce(model: UserModel, strategies: list[str] | None) -> None:
    """Print how many strategies are tried, and how long each takes, before the baseline is run.

    What the run finds in the file leaves some of them out.
    """
    cases, _ = trial.list_cases(model, strategies)
    count = len(cases) - 1  # without the baseline
    others = ""
    if count:
        others = f", then up to {format_count(count, 'strategy', 'strategies')}"
    say(
        f"{model.file.name}: running the baseline first{others}. Each takes {USUAL_TIME}, and a "
        "minute more if it compiles; an estimate follows"
    )


def report_slow_cases(cases: list[Case]) -> None:
    """Print which cases are in the first block alone, and why."""
    reasons = {}
    for case in cases:
        reason = runner.explain_slowness(case)
        if reason:
            reasons[case.strategy] = reason
    if reasons:
        first_reason = next(iter(reasons.values()))
        say(f"in the first block alone: {', '.join(reasons)}: {first_reason}")


def make_progress(
    cases: list[Case],
    where: Path,
    blocks: int,
    options: runner.Options,
    survey_s: float,
    session: str = "",
) -> CaseProgress:
    """Return a progress bar that guesses how long each case takes.

    The guess is for cases that this machine never measured: a strategy's process takes as long as
    the survey of the baseline did, `survey_s` seconds. A compiled case is timed in a second
    process, whose first compilation takes COMPILER_S. Building a process takes most of its time,
    and as many are built at once as there are cores. What `session` has measured counts as done.
    """
    guesses = {}
    for case in cases:
        guesses[case] = survey_s
        if case.strategy_spec.compiles:
            guesses[case] += survey_s + COMPILER_S
    first_look = 1
    turns = first_look + blocks if options.rounds else first_look
    cores = len(options.list_cores())
    return CaseProgress(
        cases,
        where,
        err,
        turns,
        session,
        guesses=guesses,
        at_once=cores,
        is_first_typical=True,  # the survey has built what the baseline needs
    )


def are_decided(run: measured.Run, variants: list[Variant]) -> bool:
    """Return whether the times of these variants need no more blocks."""
    from framebench.analysis import frames

    rows = frames.make_frame(
        [record for variant in variants for record in run.get_records(variant)]
    )
    return bool(frames.find_decided(rows).all())


def search_batches(
    records: list[Record],
    budget_bytes: int,
    environment: Environment,
    options: runner.Options,
    where: Path,
) -> list[Fit]:
    """Search the largest batch within a budget for each strategy that passed verification."""
    searches = []
    for case in dict.fromkeys(record.parsed for record in records if record.usable):
        smallest = replace(case, batch=case.strategy_spec.micro_batches)
        with show_progress("max-batch") as show:
            search = search_largest_batch(
                smallest,
                budget_bytes,
                environment,
                options=options,
                results=where,
                progress=show,
            )
        say(f"{case.strategy}: {search.answer}")
        searches.append(search)
    return searches
