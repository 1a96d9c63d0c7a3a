"""The command `try`: a user's model under every strategy that applies."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    fail,
    lock_for_measuring,
    parse_bytes,
    report_failures,
    say,
    show_progress,
    show_work,
)
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.session import Session
from framebench.explain import measure as explain
from framebench.explain.record import Explanation
from framebench.records import store
from framebench.records.record import Record
from framebench.records.record_base import ROUNDS
from framebench.records.search import Fit
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.strategies import parse_strategies
from framebench.user_file.trial import UserModel
from framebench.user_model.session import NO_TIME, TrialPlan, measure_strategies

if TYPE_CHECKING:
    from framebench.user_model.saved import SavedPeaks

FOLDER = runner.RESULTS / "own"
MINUTES = 10.0  # after which no block is added, unless the user says otherwise
BLOCKS = 3  # the fewest that give an interval
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
    files = {"--figure": figure, "--html": html, "--save": save, "--compare": compare}
    check_options(rounds, max_batch, budget, device, files)
    # they read pandas, which `framebench -h` need not wait for
    from framebench.user_model import report, saved

    budget_bytes = parse_bytes(budget) if budget else None
    named = parse_strategies(strategies, scenario) or None

    def show_first(records: list[Record]) -> None:
        if not as_json:
            report.show_first_look(records, budget_bytes, FOLLOWS if rounds else COMPILED)

    def show_all(records: list[Record], left_out: dict[str, str], fits: Sequence[Fit] = ()) -> None:
        report.show(records, left_out, budget_bytes, figure, html, as_json, fits)

    try:
        allowed = saved.parse_threshold(threshold)
        earlier = saved.read_saved(compare) if compare else None
        if html:
            report.check_page_folder(html)
        model = trial.inspect_file(file, batch, framework, scenario)
        if earlier:
            saved.check_request(earlier, model, named)
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
            lock_for_measuring(where, lambda: describe_kept(where, sizes, save)),
        ):
            trial.list_cases(model, named)  # refuses an unknown strategy before anything runs
            environment = trial.choose_environment(model, env, say)
            plan = make_plan(named, options, blocks, minutes)
            outcome = measure_strategies(model, plan, where, environment, show_first, show_all)
            records = outcome.records
            peaks = None
            fits: list[Fit] = []
            if outcome.is_complete:
                usable = [record for record in records if record.usable]
                is_reported = not report.find_contradiction(records)
                if budget_bytes and max_batch and usable and is_reported:
                    if not as_json:  # the searches take minutes, and JSON is printed once
                        show_all(records, outcome.left_out)
                    fits = search_batches(usable, budget_bytes, environment, options, where)
                if save or compare:
                    peaks = saved.collect_peaks(records, explain_baseline(model, environment))
                end_session(outcome.session, where, peaks, save)
        if as_json or not fits:
            show_all(records, outcome.left_out, fits)
        if fits:
            report.show_batches(records, outcome.left_out, budget_bytes, fits, html, as_json)
        has_failed = report_failures([record.status for record in records], "records")
        if not outcome.is_complete:
            say(describe_rest(outcome.left_out, minutes))
            has_failed |= bool(save or compare)  # a check that did not end is not passed
        if peaks:
            saved.check_not_empty(peaks)
            has_failed |= saved.report_missing(named or [], outcome.left_out)
            has_failed |= earlier is not None and saved.report_growth(earlier, peaks, allowed)
            if save:
                say(f"wrote {save}")
    except Fault as error:
        fail(str(error), 2)
    end_command(succeeded=not has_failed)


def check_options(
    rounds: int,
    max_batch: bool,
    budget: str | None,
    device: str | None,
    files: Mapping[str, Path | None],
) -> None:
    """Check that options go together. Ends the command with exit code 2 if they do not.

    `files` has the path of each option that a result of measuring is written to or compared with.
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
    unused = [option for option, path in files.items() if path is not None]
    if device is not None and unused:
        fail(f"--device runs nothing, so that there is nothing for {', '.join(unused)}", 2)


def make_plan(
    strategies: list[str] | None,
    options: runner.Options,
    blocks: int | None,
    minutes: float | None,
) -> TrialPlan:
    """Return what to measure, and the seconds that it may take.

    Without `blocks` further ones are measured until speeds are decided, for `minutes` at most.
    """
    limit_s = None if minutes is None else 60 * minutes
    blocks_s = 60 * MINUTES if limit_s is None else limit_s
    return TrialPlan(strategies, options, blocks or BLOCKS, None if blocks else blocks_s, limit_s)


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


def describe_rest(left_out: dict[str, str], minutes: float | None) -> str:
    """Return what `--minutes` left no time for, and the command that goes on."""
    names = [name for name, reason in left_out.items() if reason == NO_TIME]
    rest = ", ".join(names) if names else "times"
    command = shlex.join(["framebench", *sys.argv[1:]])
    return (
        f"--minutes {minutes:g} are over before everything was measured; left: {rest}. The same "
        f"command goes on there: {command}"
    )


def search_batches(
    records: list[Record],
    budget_bytes: int,
    environment: Environment,
    options: runner.Options,
    where: Path,
) -> list[Fit]:
    """Search the largest batch within a budget for the strategy of each record."""
    searches = []
    cases = list(dict.fromkeys(record.parsed for record in records))
    say(
        f"the largest batch is searched for {len(cases)} of the strategies in turn, which takes a "
        "minute or more for each; --strategies names fewer"
    )
    for case in cases:
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
