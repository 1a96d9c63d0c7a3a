"""The command that tells a peak without running the case: `predict`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from framebench.budget.max_batch.measure import probe_once
from framebench.cli.shared import (
    BUDGET,
    AsJson,
    Env,
    Machines,
    Results,
    app,
    err,
    fail,
    machines_of,
    parse_bytes,
    say,
)
from framebench.devices.show import predict_on_device
from framebench.engine import environments, runner
from framebench.engine.environments import Environment
from framebench.ranks.command import predict_rank
from framebench.suite import hypothetical
from framebench.suite import selectors as named_cases
from framebench.suite.case import Case
from framebench.suite.user_file import Fault
from framebench.user_file.opening import open_shapes

if TYPE_CHECKING:
    from framebench.analysis.results import Results as Folder


@app.command(rich_help_panel=BUDGET)
def predict(
    case: Annotated[str, typer.Argument(help="workload/framework/scenario/strategy/bN/size, with any batch; or your own file")],
    ranks: Annotated[int | None, typer.Option(help="Number of ranks that share the batch, 2 to 1024.")] = None,
    device: Annotated[
        str | None, typer.Option(help="A device that is not here, such as h100-80gb. `framebench devices` lists them.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="With --device: predict again, even if this was answered before.")
    ] = False,
    batch: Annotated[int, typer.Option(min=1, help="Of a file of your own.")] = 8,
    scenario: Annotated[str, typer.Option(help="Of a file of your own: train or eval.")] = "train",
    strategies: Annotated[str | None, typer.Option(help="Of a file of your own. Default: its baseline.")] = None,
    budget: Annotated[
        str | None, typer.Option(help="Of a file of your own: also run it under this limit, such as 4GiB.")
    ] = None,
    env: Env = None,
    results: Results = runner.RESULTS,
    machine: Machines = None,
    as_json: AsJson = False,
) -> None:
    """Predict the peak of a case without running it: its lower bound, a run on tensors without numbers (PyTorch), and the peak
    by which `advise` judges. For a strategy over ranks it is the peak of the fullest rank.

    With --device: what one or many cases need on a device that is not here, such as 'transformer/*/train/*/b8/full'."""
    if case.endswith(".py"):
        if device or ranks:
            fail(f"--ranks takes the suite's cases, and `framebench try {case} --device` a file", 2)
        wanted = strategies.split(",") if strategies else []
        return of_file(Path(case), scenario, wanted, batch, parse_bytes(budget) if budget else None, env, as_json)
    if device is not None:
        return predict_on_device([case], device, results, as_json, again)
    if ranks is not None or named_cases.asks_for_ranks(case):
        return predict_rank(case, ranks, as_json)
    asked = hypothetical.named(case)
    prediction_rows = predictions(asked, machine, results)
    if as_json:
        typer.echo(json.dumps({"case": asked.id, "predictions": prediction_rows}, indent=1))
        return
    show(asked.id, prediction_rows)


def show(name: str, prediction_rows: list[dict[str, Any]]) -> None:
    typer.echo(name)
    for one in prediction_rows:
        interval = f" ({one['low'] / 2**20:,.1f} to {one['high'] / 2**20:,.1f})" if one.get("low") is not None else ""
        peak = "-" if one["bytes"] is None else f"{one['bytes'] / 2**20:,.1f} MiB{interval}"
        typer.echo(f"  {one['method']:<13} {peak:>13}  {one['note']}")


def of_file(
    file: Path, scenario: str, strategies: list[str], batch: int, budget: int | None, env: str | None, as_json: bool
) -> None:
    """A user's own model, by fake tensors; within a budget it is also run, under that limit."""
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        with open_shapes(file, scenario, strategies, batch, env) as (cases, left_out, environment):
            for case in cases:
                found[case.id] = [by_fake_tensors(case, environment)]
                found[case.id] += [enforced(case, budget, environment)] if budget else []
    except Fault as error:
        fail(str(error), 2)
    for name, why in left_out.items():
        say(f"left out: {name}: {why}")
    if as_json:
        typer.echo(json.dumps([{"case": name, "predictions": rows} for name, rows in found.items()], indent=1))
        return
    for name, rows in found.items():
        show(name, rows)


def enforced(case: Case, budget: int, environment: Environment) -> dict[str, Any]:
    """Two steps under the limit, in a fresh process."""
    with err.status(f"{case.id}: under the limit"):
        probe = probe_once(case, budget, environment)
    verdict = {"fits": "fits", "memory": "does not fit"}.get(probe.outcome, "failed")
    note = f"b{case.batch} {verdict} within {budget / 2**20:,.1f} MiB" + (f": {probe.reason}" if probe.reason else "")
    return {"method": "enforced", "instrument": probe.instrument, "bytes": probe.peak, "note": note, "budget_bytes": budget}


def by_fake_tensors(case: Case, environment: Environment | None = None) -> dict[str, Any]:
    """The row of this method. `environment`: PyTorch's, by default the pinned one. Raises Fault."""
    fake: dict[str, Any] = {"method": "fake tensors", "instrument": "predicted", "bytes": None}
    if why := hypothetical.obstacle(case):
        return fake | {"note": why}
    environment = environment or environments.ensure("torch", say=say)
    printed = environments.run_module(environment, "framebench.budget.predict.worker", case.id, OMP_NUM_THREADS="1")
    answer = json.loads(printed.splitlines()[-1])
    if "fault" in answer:
        raise Fault(answer["fault"])
    note = f"torch {environment.version}, eager, as on a CPU; no kernel's workspace"
    return fake | {"bytes": answer["predicted"], "note": note}


def predictions(case: Case, machine: str | None, results: Path) -> list[dict[str, Any]]:
    """Bytes by method; None with the reason where a method cannot tell. An unknown machine ends the command."""
    from framebench.analysis.lower_bound import lower_bound
    from framebench.analysis.results import Results as Folder

    folder = Folder(results)
    of = cache(lambda name: _from_records(case, name, folder))
    machines = machines_of(folder, machine, lambda name: of(name)["bytes"] is not None)
    prediction_rows: list[dict[str, Any]] = [
        {
            "method": "lower bound",
            "instrument": "counted",
            "bytes": lower_bound(case).total,
            "note": "the least that any framework needs"
            + ("" if case.spec.layers else f", without activations: {case.workload} declares no layers"),
        }
    ]
    prediction_rows.append(by_fake_tensors(case))
    for name in machines:
        prediction_rows += [of(name), *_from_searches(case, name, folder)]
    return prediction_rows


def _from_records(case: Case, machine: str, folder: Folder) -> dict[str, Any]:
    """What `advise` judges by: the peak, and what a limit on memory has to be."""
    from framebench.analysis.peaks import MARGIN, find_peak, read_evidence
    from framebench.analysis.results import NoRecords

    rows, _ = read_evidence(folder.root, machine, case.workload, case.scenario)
    try:
        peak, row = find_peak(rows, case, folder.searches)
    except NoRecords as error:
        return {"method": "records", "instrument": None, "bytes": None, "note": str(error)}
    needs = f"needs {peak.needs / 2**20:,.1f} MiB with {peak.kept / 2**20:,.1f} MiB kept beside it and {MARGIN - 1:.0%} more"
    where = f"{row.step_instrument} on {machine}, {case.framework} {row.framework_version}"
    return {
        "method": "records", "instrument": row.step_instrument, "bytes": round(peak.value), "low": peak.low,
        "high": peak.high, "kept_bytes": peak.kept, "needs_bytes": peak.needs, "kind": peak.kind, "machine": machine,
        "note": f"{where}: {peak.kind}, {peak.method}; {needs}",
    }  # fmt: skip


def _from_searches(case: Case, machine: str, folder: Folder) -> Iterator[dict[str, Any]]:
    """What searches under a limit tell about this batch, whatever is predicted."""
    for tried in folder.searches.of_case(case, machine):
        (fit,) = tried.fits
        verdict = {True: "fits", False: "does not fit", None: "was not tried"}[tried.verdict(case.batch, fit.budget_bytes)]
        note = f"b{case.batch} {verdict} within {fit.budget_bytes / 2**20:,.1f} MiB on {machine}: {fit.answer.split(' (')[0]}"
        yield {"method": "search", "instrument": None, "bytes": None, "note": note, "budget_bytes": fit.budget_bytes}
