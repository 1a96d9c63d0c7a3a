"""The command that tells a peak without running the case: `predict`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from framebench.budget.max_batch import on_device
from framebench.budget.max_batch.measure import probe_once
from framebench.cli.shared import (
    BUDGET,
    AsJson,
    Env,
    Machines,
    Results,
    app,
    echo,
    err,
    fail,
    find_machines,
    parse_bytes,
    say,
)
from framebench.devices.show import predict_on_device
from framebench.engine import environments, runner
from framebench.engine.environments import Environment
from framebench.ranks.cases import over_ranks
from framebench.ranks.command import predict_rank
from framebench.records.search import MIB
from framebench.suite import hypothetical, selectors
from framebench.suite.case import Case
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.opening import open_shapes

if TYPE_CHECKING:
    from framebench.analysis.results import Results as Folder

FAKE_TENSORS_LIMIT_S = 900.0


@dataclass(frozen=True)
class PeakPrediction:
    """What one method says of a peak."""

    method: str
    instrument: str | None
    bytes: int | None  # None where the method cannot tell, for which `note` has the reason
    note: str


@dataclass(frozen=True)
class RecordPrediction(PeakPrediction):
    """What records say: the interval of a prediction, and what a limit on memory has to be.

    Sizes in bytes.
    """

    low: float | None
    high: float | None
    kept_bytes: int
    needs_bytes: int
    kind: str
    machine: str


@dataclass(frozen=True)
class LimitPrediction(PeakPrediction):
    """What a process under a limit says."""

    budget_bytes: int


@app.command(rich_help_panel=BUDGET)
def predict(
    case: Annotated[
        str,
        typer.Argument(
            help="workload/framework/scenario/strategy/bN/size, with any batch; or your own file"
        ),
    ],
    ranks: Annotated[
        int | None, typer.Option(help="Number of ranks that share the batch, 2 to 1024.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="A device that is not here, such as h100-80gb. `framebench devices` lists them."
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="With --device: predict again, even if this was answered before."
        ),
    ] = False,
    batch: Annotated[int, typer.Option(min=1, help="Of a file of your own.")] = 8,
    scenario: Annotated[str, typer.Option(help="Of a file of your own: train or eval.")] = "train",
    strategies: Annotated[
        str | None, typer.Option(help="Of a file of your own. Default: its baseline.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Of a file of your own: also run it under this limit, such as 4GiB."),
    ] = None,
    env: Env = None,
    results: Results = runner.RESULTS,
    machine: Machines = None,
    as_json: AsJson = False,
) -> None:
    """Predict the peak of a case without running it: its lower bound, a run on tensors without
    numbers (PyTorch), and the peak by which `advise` judges. For a strategy over ranks it is the
    peak of the fullest rank.

    With --device: what one or many cases need on a device that is not here, such as
    'transformer/*/train/*/b8/full'.
    """
    if case.endswith(".py"):
        if ranks:
            fail("--ranks takes the suite's cases, not a file", 2)
        named_strategies = strategies.split(",") if strategies else []
        if device is not None:
            predict_file_on_device(
                Path(case), scenario, named_strategies, batch, device, results, env, as_json
            )
            return
        budget_bytes = parse_bytes(budget) if budget else None
        predict_file(Path(case), scenario, named_strategies, batch, budget_bytes, env, as_json)
    elif device is not None:
        selector = over_ranks(case, ranks).id if ranks else case
        predict_on_device([selector], device, results, as_json, again)
    elif ranks is not None or selectors.asks_for_ranks(case):
        predict_rank(case, ranks, as_json)
    else:
        named = hypothetical.parse_any_batch(case)
        predictions = predict_case(named, machine, results)
        if as_json:
            echo(json.dumps(make_json(named.id, predictions), indent=1))
        else:
            show(named.id, predictions)


def mib(count: float) -> str:
    """Return bytes in MiB, without the unit."""
    return f"{count / MIB:,.1f}"


def format_interval(low: float | None, high: float | None) -> str:
    """Return the interval of a prediction in MiB, or nothing if it has none."""
    if low is None or high is None:
        return ""
    return f" ({mib(low)} to {mib(high)})"


def make_json(name: str, predictions: Sequence[PeakPrediction]) -> dict[str, Any]:
    """Return the predictions of a case for programs."""
    return {"case": name, "predictions": [asdict(prediction) for prediction in predictions]}


def show(name: str, predictions: Sequence[PeakPrediction]) -> None:
    """Print the predictions of a case, a line for each method, and what the case needs."""
    from framebench.analysis.needs import MARGIN, format_needs  # imports pandas

    echo(name)
    for prediction in predictions:
        peak = "-"
        if prediction.bytes is not None:
            peak = f"{mib(prediction.bytes)} MiB"
            if isinstance(prediction, RecordPrediction):
                peak += format_interval(prediction.low, prediction.high)
        echo(f"  {prediction.method:<13} {peak:>13}  {prediction.note}")
        if isinstance(prediction, RecordPrediction):
            needs = f"{format_needs(prediction.needs_bytes)} MiB"
            kept = f"the peak, {mib(prediction.kept_bytes)} MiB kept next to it, and"
            echo(f"  {'needs':<13} {needs:>13}  what a budget must have: {kept} {MARGIN - 1:.0%}")


def predict_file(
    file: Path,
    scenario: str,
    strategies: list[str],
    batch: int,
    budget: int | None,
    env: str | None,
    as_json: bool,
) -> None:
    """Predict a user's own model by fake tensors; within a budget it is also run, under that
    limit.
    """
    predictions: dict[str, list[PeakPrediction]] = {}
    try:
        with open_shapes(file, scenario, strategies, batch, env) as (cases, left_out, environment):
            for case in cases:
                predictions[case.id] = [predict_by_fake_tensors(case, environment)]
                if budget:
                    predictions[case.id].append(try_under_limit(case, budget, environment))
    except Fault as error:
        fail(str(error), 2)
    for name, why in left_out.items():
        say(f"left out: {name}: {why}")
    if as_json:
        echo(
            json.dumps(
                [make_json(name, of_case) for name, of_case in predictions.items()], indent=1
            )
        )
    else:
        for name, of_case in predictions.items():
            show(name, of_case)


def predict_file_on_device(
    file: Path,
    scenario: str,
    strategies: list[str],
    batch: int,
    device: str,
    results: Path,
    env: str | None,
    as_json: bool,
) -> None:
    """Predict a user's own model on a device that is not here. Raises UnknownDevice."""
    try:
        model = trial.inspect_file(file, batch, scenario=scenario)
        on_device.predict_file(model, strategies, device, results, env, as_json)
    except Fault as error:
        fail(str(error), 2)


def predict_case(case: Case, machine: str | None, results: Path) -> list[PeakPrediction]:
    """Return what each method says. An unknown machine ends the command."""
    from framebench.analysis.results import Results as Folder

    folder = Folder(results)

    @cache
    def from_records(name: str) -> PeakPrediction:
        return predict_from_records(case, name, folder)

    def has_records(name: str) -> bool:
        return from_records(name).bytes is not None

    machines = find_machines(folder, machine, has_records)
    predictions = [count_lower_bound(case), predict_by_fake_tensors(case)]
    for name in machines:
        predictions.append(from_records(name))
        predictions += find_searches(case, name, folder)
    return predictions


def count_lower_bound(case: Case) -> PeakPrediction:
    """Return the least that any framework needs."""
    from framebench.analysis.lower_bound import compute_lower_bound

    note = "the least that any framework needs"
    if not case.spec.layers:
        note += f", without activations: {case.workload} declares no layers"
    return PeakPrediction("lower bound", "counted", compute_lower_bound(case).total, note)


def predict_by_fake_tensors(case: Case, environment: Environment | None = None) -> PeakPrediction:
    """Return the peak of a run on fake tensors, in PyTorch's environment. Raises Fault."""
    obstacle = hypothetical.explain_unpredictable(case)
    if obstacle:
        return PeakPrediction("fake tensors", "predicted", None, obstacle)
    environment = environment or environments.ensure("torch", say=say)
    printed = environments.run_module(
        environment,
        "framebench.budget.predict.worker",
        case.id,
        variables={"OMP_NUM_THREADS": "1"},
        limit_s=FAKE_TENSORS_LIMIT_S,
    )
    answer = json.loads(printed.splitlines()[-1])
    if "fault" in answer:
        raise Fault(answer["fault"])
    note = f"torch {environment.version}, eager, as on a CPU; no kernel's workspace"
    return PeakPrediction("fake tensors", "predicted", answer["predicted"], note)


def try_under_limit(case: Case, budget: int, environment: Environment) -> PeakPrediction:
    """Run two steps under the limit, in a fresh process."""
    with err.status(f"{case.id}: under the limit"):
        probe = probe_once(case, budget, environment)
    verdict = {"fits": "fits", "memory": "does not fit", "failed": "failed"}[probe.outcome]
    note = f"b{case.batch} {verdict} within {mib(budget)} MiB"
    if probe.reason:
        note += f": {probe.reason}"
    return LimitPrediction("enforced", probe.instrument, probe.peak, note, budget)


def predict_from_records(case: Case, machine: str, folder: Folder) -> PeakPrediction:
    """Return what `advise` judges by: the peak, and what a limit on memory has to be."""
    from framebench.analysis.peaks import find_peak, read_evidence
    from framebench.analysis.results import NoRecords

    rows, _ = read_evidence(folder.root, machine, case.workload, case.scenario)
    try:
        peak, row = find_peak(rows, case, folder.searches)
    except NoRecords as error:
        return PeakPrediction("records", None, None, str(error))
    where = f"{row.step_instrument} on {machine}, {case.framework} {row.framework_version}"
    return RecordPrediction(
        "records",
        row.step_instrument,
        round(peak.value),
        f"{where}: {peak.kind}, {peak.method}",
        low=peak.low,
        high=peak.high,
        kept_bytes=peak.kept,
        needs_bytes=peak.needs,
        kind=peak.kind,
        machine=machine,
    )


def find_searches(case: Case, machine: str, folder: Folder) -> Iterator[PeakPrediction]:
    """Yield what searches under a limit tell about this batch, whatever is predicted."""
    verdicts = {True: "fits", False: "does not fit", None: "was not tried"}
    for tried in folder.searches.list_searches(case, machine):
        (fit,) = tried.fits
        verdict = verdicts[tried.check_fits(case.batch, fit.budget_bytes)]
        answer = fit.answer.split(" (")[0]
        note = f"b{case.batch} {verdict} within {mib(fit.budget_bytes)} MiB on {machine}: {answer}"
        yield LimitPrediction("search", None, None, note, fit.budget_bytes)
