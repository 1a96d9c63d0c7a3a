"""The command that tells a peak without running the case: `predict`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from framebench.budget.max_batch import on_device
from framebench.budget.max_batch.measure import OUTCOMES, probe_once
from framebench.cli.shared import (
    ALL,
    BUDGET,
    AsJson,
    Env,
    FileBatch,
    FileScenario,
    FileStrategies,
    Machines,
    ResultsOption,
    TargetDevice,
    app,
    echo,
    fail,
    find_answering_machines,
    find_machines,
    parse_bytes,
    say,
    show_work,
    suggest_measuring,
)
from framebench.devices.show import predict_on_device
from framebench.engine import environments, runner
from framebench.engine.environments import Environment
from framebench.ranks.cases import parse_rank_case
from framebench.ranks.command import predict_rank
from framebench.suite import hypothetical, selectors
from framebench.suite.case import FULL_SIZE, Case
from framebench.suite.hypothetical import add_missing_size
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.opening import open_shapes
from framebench.user_file.strategies import parse_strategies

if TYPE_CHECKING:
    from framebench.analysis.frames import Row
    from framebench.analysis.results import Results

FAKE_TENSORS_LIMIT_S = 900.0
CASE_HELP = "workload/framework/scenario/strategy/bN/size, with any batch; or your own file"


@dataclass(frozen=True)
class PeakPrediction:
    """The peak of a case by one method. Sizes are in bytes, None where the method has none."""

    method: str
    instrument: str | None
    bytes: int | None  # None where the method cannot tell, for which `note` has the reason
    note: str
    # of records: the interval of a prediction, and what a limit on memory has to be
    low: float | None = None
    high: float | None = None
    kept_bytes: int | None = None
    kept_lender: str | None = None  # machines whose published searches say what is kept
    needs_bytes: int | None = None
    # less where what is kept is that of other strategies: a budget between the two may be enough
    least_needs_bytes: int | None = None
    kind: str | None = None
    machine: str | None = None
    budget_bytes: int | None = None  # of a process under a limit


@app.command(rich_help_panel=BUDGET)
def predict(
    case: Annotated[str, typer.Argument(help=CASE_HELP)],
    ranks: Annotated[
        int | None, typer.Option(help="Number of ranks that share the batch, 2 to 1024.")
    ] = None,
    device: TargetDevice = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="With --device: predict again, even if this was answered before."
        ),
    ] = False,
    batch: FileBatch = 8,
    scenario: FileScenario = "train",
    strategies: FileStrategies = None,
    budget: Annotated[
        int | None,
        typer.Option(
            parser=parse_bytes,
            metavar="SIZE",
            help="Also run your own file under this limit, such as 4GiB.",
        ),
    ] = None,
    env: Env = None,
    results: ResultsOption = runner.RESULTS,
    machine: Machines = None,
    as_json: AsJson = False,
) -> None:
    """Predict the peak of a case without running it: its lower bound, a run on tensors without
    numbers (PyTorch), and the peak by which `advise` judges. For a strategy over ranks it is the
    peak of the fullest rank.

    With --device: what one or many cases need on a device that is not here, such as
    'transformer/*/train/*/b8/full'.
    """
    is_file = case.endswith(".py")
    if budget and (device or not is_file):
        command = "try" if is_file else "advise"
        on_device_option = f" --device {device}" if device else ""
        fail(
            "--budget takes a file of yours that runs here; what fits: "
            f"framebench {command} '{case}'{on_device_option} --budget SIZE",
            2,
        )
    if strategies and not is_file:
        fail("--strategies takes a file; of a case, a strategy is the fourth part", 2)
    if is_file:
        if ranks:
            fail("--ranks takes the suite's cases, not a file", 2)
        chosen = parse_strategies(strategies, scenario)
        try:
            if device is not None:
                model = trial.inspect_file(Path(case), batch, scenario=scenario)
                on_device.show_needs_of_file(model, chosen, device, results, env, as_json)
                return
            predictions, labels = predict_file(Path(case), scenario, chosen, batch, budget, env)
        except Fault as error:
            fail(str(error), 2)
        print_predictions(predictions, as_json, labels)
    elif device is not None:
        selector = case
        if ranks:
            selector = parse_rank_case(add_missing_size(case, FULL_SIZE), ranks).id
        predict_on_device(selector, device, results, as_json, again)
    elif ranks is not None or selectors.asks_for_ranks(case):
        predict_rank(case, ranks, as_json)
    else:
        parsed = hypothetical.parse_any_batch(case)
        predictions = {parsed.id: predict_case(parsed, machine, results)}
        print_predictions(predictions, as_json, is_single=True)


def print_predictions(
    predictions_by_case: Mapping[str, Sequence[PeakPrediction]],
    as_json: bool,
    labels: Mapping[str, str] | None = None,
    is_single: bool = False,
) -> None:
    """Print the predictions by case, a line for each method, and the case's needs.

    `labels` has the text that is printed instead of a case's id. With `is_single` the JSON is that
    of the one case, and otherwise a list of cases.
    """
    if as_json:
        cases = []
        for case_id, predictions in predictions_by_case.items():
            cases.append({"case": case_id, "predictions": list(map(asdict, predictions))})
        echo(json.dumps(cases[0] if is_single else cases, indent=1))
        return
    # these import pandas
    from framebench.analysis.needs import MARGIN, NOT_IN_BUDGET, format_guessed_needs
    from framebench.analysis.rendering import format_mib

    for case_id, predictions in predictions_by_case.items():
        echo((labels or {}).get(case_id, case_id))
        for prediction in predictions:
            peak = "-"
            if prediction.bytes is not None:
                peak = f"{format_mib(prediction.bytes)} MiB"
            if prediction.low is not None:
                peak += f" ({format_mib(prediction.low)} to {format_mib(prediction.high)})"
            echo(f"  {prediction.method:<13} {peak:>13}  {prediction.note}")
            if prediction.needs_bytes is None:
                continue
            least_needs = prediction.least_needs_bytes or prediction.needs_bytes
            needs = f"{format_guessed_needs(prediction.needs_bytes, least_needs)} MiB"
            kept = f"{format_mib(prediction.kept_bytes)} MiB kept next to it"
            if prediction.kept_lender:
                kept += f" (by published searches on {prediction.kept_lender})"
            if least_needs < prediction.needs_bytes:
                kept += " at the most that was seen with other strategies"
            echo(
                f"  {'needs':<13} {needs:>13}  what a budget must have: the peak, {kept}, "
                f"and {MARGIN - 1:.0%}"
            )
            if prediction.instrument == "host.rss":
                echo(f"  {NOT_IN_BUDGET}")


def predict_file(
    file: Path,
    scenario: str,
    strategies: list[str],
    batch: int,
    budget: int | None,
    env: str | None,
) -> tuple[dict[str, list[PeakPrediction]], dict[str, str]]:
    """Predict a user's own model by fake tensors, and return predictions and labels by case.

    With a budget in bytes it is also run under that limit. Raises Fault.
    """
    predictions = {}
    labels = {}
    with open_shapes(file, scenario, strategies, batch, env) as (cases, left_out, environment):
        for case in cases:
            labels[case.id] = case.label
            say(f"{case.label}: running on tensors without numbers, seconds to minutes")
            predictions[case.id] = [predict_by_fake_tensors(case, environment)]
            if budget:
                predictions[case.id].append(try_under_limit(case, budget, environment))
    for name, why in left_out.items():
        say(f"left out: {name}: {why}")
    return predictions, labels


def predict_case(case: Case, machine: str | None, results: Path) -> list[PeakPrediction]:
    """Return the peak of a case by each method: lower bound, fake tensors, records.

    Ends the command where `machine` is unknown.
    """
    from framebench.analysis.peaks import read_evidence
    from framebench.analysis.results import Results

    recorded = Results(results)

    @cache  # called to choose the machines, and for the answer
    def read_rows(name: str) -> list[Row]:
        rows, _blocks = read_evidence(recorded.root, name, case.workload, case.scenario)
        return rows

    def count_answers(name: str) -> tuple[int, ...]:
        """Count a machine's rows of the case, and of its strategy in its framework."""
        rows = read_rows(name)
        if predict_from_rows(case, rows, recorded).bytes is None:
            return (0,)
        case_count = strategy_count = 0
        for row in rows:
            if row.case == case.id:
                case_count += 1
            if (row.framework, row.strategy) == (case.framework, case.strategy):
                strategy_count += 1
        return case_count, strategy_count

    # the rows of a group's machines make one prediction
    if machine == ALL:
        machine_groups = [[name] for name in find_machines(recorded, machine)]
    else:
        # as `advise` does, so that both answer alike
        machine_groups = [find_answering_machines(recorded, machine, count_answers)]
    predictions = [predict_lower_bound(case), predict_by_fake_tensors(case)]
    for names in machine_groups:
        rows: list[Row] = []
        for name in names:
            rows += read_rows(name)
        predictions.append(predict_from_rows(case, rows, recorded))
    return predictions


def predict_lower_bound(case: Case) -> PeakPrediction:
    """Return the least that any framework needs for a case."""
    from framebench.analysis.lower_bound import compute_lower_bound

    note = "the least that any framework needs"
    if not case.workload_spec.layers:
        note += f", without activations: {case.workload} declares no layers"
    undone = case.support.undone_on_cpu
    if undone:
        note += f"; on a CPU expect more, as {undone}"
    return PeakPrediction(
        "lower bound", instrument="counted", bytes=compute_lower_bound(case).total, note=note
    )


def predict_by_fake_tensors(case: Case, environment: Environment | None = None) -> PeakPrediction:
    """Return the peak of a run on fake tensors, in PyTorch's environment. Raises Fault."""
    obstacle = hypothetical.explain_unpredictable(case)
    if obstacle:
        return PeakPrediction("fake tensors", instrument="predicted", bytes=None, note=obstacle)
    environment = environment or environments.ensure("torch", say=say)
    answer = environments.ask_module(
        environment,
        "framebench.budget.predict.worker",
        case.id,
        variables={"OMP_NUM_THREADS": "1"},
        limit_s=FAKE_TENSORS_LIMIT_S,
    )
    if "fault" in answer:
        raise Fault(answer["fault"])
    types = case.workload_spec.weight_types
    in_types = f"; weights in {types}, as the file has them" if types else ""
    return PeakPrediction(
        "fake tensors",
        instrument="predicted",
        bytes=answer["predicted"],
        note=f"torch {environment.version}, eager, as on a CPU{in_types}; no kernel's workspace",
    )


def try_under_limit(case: Case, budget: int, environment: Environment) -> PeakPrediction:
    """Run the case under a limit of `budget` bytes in a fresh process, and return its peak."""
    from framebench.analysis.rendering import format_mib

    with show_work(f"{case.id}: running it under the limit"):
        probe = probe_once(case, budget, environment)
    note = f"b{case.batch} {OUTCOMES[probe.outcome]} within {format_mib(budget)} MiB"
    if probe.reason:
        note += f": {probe.reason}"
    return PeakPrediction(
        "enforced",
        instrument=probe.instrument,
        bytes=probe.peak,
        note=note,
        budget_bytes=budget,
    )


def predict_from_rows(case: Case, rows: Sequence[Row], recorded: Results) -> PeakPrediction:
    """Return the peak and needs of a case by records, as `advise` judges them."""
    from framebench.analysis.peaks import find_peak
    from framebench.analysis.results import NoRecords

    try:
        peak, row = find_peak(rows, case, recorded.searches)
    except NoRecords as error:
        note = f"{error}{suggest_measuring(error.selector, recorded.root)}"
        return PeakPrediction("records", instrument=None, bytes=None, note=note)
    source = f"{row.step_instrument} on {row.machine}, {case.framework} {row.framework_version}"
    return PeakPrediction(
        "records",
        instrument=row.step_instrument,
        bytes=round(peak.value),
        note=f"{source}: {peak.kind}, {peak.method}",
        low=peak.low,
        high=peak.high,
        kept_bytes=peak.kept_bytes,
        kept_lender=row.kept_lender,
        needs_bytes=peak.needs,
        least_needs_bytes=peak.least_needs,
        kind=peak.kind,
        machine=row.machine,
    )
