"""The command that tells a peak without running the case: `predict`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from framebench.cli.shared import BUDGET, AsJson, Machines, Results, app, machines_of, needed, say
from framebench.engine import environments, runner
from framebench.extensions import worker_module
from framebench.suite import hypothetical
from framebench.suite import selectors as named_cases
from framebench.suite.case import Case

if TYPE_CHECKING:
    from framebench.analysis.results import Results as Folder


@app.command(rich_help_panel=BUDGET)
def predict(
    case: Annotated[str, typer.Argument(help="workload/framework/scenario/strategy/bN/size, with any batch")],
    ranks: Annotated[int | None, typer.Option(help="of one rank of so many, which share the batch; 2 to 1024")] = None,
    device: Annotated[
        str | None, typer.Option(help="that is not here, such as h100-80gb; `framebench devices` lists them")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="with --device: anew, whatever was told before")] = False,
    results: Results = runner.RESULTS,
    machine: Machines = None,
    as_json: AsJson = False,
) -> None:
    """The peak of a case without running it: lower bound, fake tensors (PyTorch, eager), and what advise judges by, which are
    records and searches; of a strategy over ranks the peak of the fullest rank.

    With --device: what each of many cases needs on a device that is not here, such as
    'transformer/*/train/*/b8/full'."""
    if device is not None:
        needed("predict_on_device", "devices")([case], device, results, as_json, again)
        return
    if ranks is not None or named_cases.asks_for_ranks(case):
        needed("predict_rank", "ranks")(case, ranks, as_json)
        return
    asked = hypothetical.named(case)
    prediction_rows = predictions(asked, machine, results)
    if as_json:
        typer.echo(json.dumps({"case": asked.id, "predictions": prediction_rows}, indent=1))
        return
    typer.echo(asked.id)
    for one in prediction_rows:
        interval = f" ({one['low'] / 2**20:,.1f} to {one['high'] / 2**20:,.1f})" if one.get("low") is not None else ""
        peak = "-" if one["bytes"] is None else f"{one['bytes'] / 2**20:,.1f} MiB{interval}"
        typer.echo(f"  {one['method']:<13} {peak:>13}  {one['note']}")


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
    fake: dict[str, Any] = {"method": "fake tensors", "instrument": "predicted", "bytes": None}
    if why := hypothetical.obstacle(case):
        prediction_rows.append(fake | {"note": why})
    else:
        environment = environments.ensure("torch", say=say)
        printed = environments.run_module(environment, worker_module("predict", "worker"), case.id, OMP_NUM_THREADS="1")
        peak = json.loads(printed.splitlines()[-1])["predicted"]
        prediction_rows.append(
            fake | {"bytes": peak, "note": f"torch {environment.version}, eager, as on a CPU; no kernel's workspace"}
        )
    for name in machines:
        prediction_rows += [of(name), *_from_searches(case, name, folder)]
    return prediction_rows


def _from_records(case: Case, machine: str, folder: Folder) -> dict[str, Any]:
    """What `advise` judges by: the peak, and what a limit on memory has to be."""
    from framebench.analysis.peaks import MARGIN, evidence_about, expected
    from framebench.analysis.results import NoRecords

    rows, _ = evidence_about(folder.root, machine, case.workload, case.scenario)
    try:
        peak, row = expected(rows, case, folder.searches)
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
