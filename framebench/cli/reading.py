"""Commands that read records and predict: `list | show | report | predict`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from framebench.cli.shared import (
    ALL,
    BUDGET,
    READ,
    AsJson,
    Machine,
    Machines,
    Profile,
    Results,
    Selectors,
    app,
    chosen,
    err,
    fail,
    machine_of,
    machines_of,
    out,
    say,
)
from framebench.engine import environments, runner
from framebench.engine.progress import line
from framebench.records.record import Record
from framebench.suite import hypothetical, profiles
from framebench.suite import selectors as named_cases
from framebench.suite.case import Case

if TYPE_CHECKING:
    from framebench.analysis.results import Results as Folder
from framebench.suite.registry import OVER_RANKS, SCENARIOS, names


@app.command("list", rich_help_panel=READ)
def list_(
    selectors: Selectors = None,
    strategies: Annotated[bool, typer.Option("--strategies", help="the support matrix, with reasons")] = False,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """The cases of a profile, those a selector names, or the support matrix."""
    if strategies:
        from framebench.analysis.reports import support

        if as_json:
            rows = [
                {"scenario": scenario, **dict(zip(support.SUPPORT, support.supported(stage, name)))}
                for scenario, stage in SCENARIOS.items()
                for name in [*names(scenario), *(name for where, name in OVER_RANKS if where == scenario)]
            ]
            typer.echo(json.dumps(rows, indent=1))
        else:
            for part in support.every_table():
                part.terminal(out)
        return
    found = chosen(selectors, profiles.profile(), profile)
    if as_json:
        kinds = [{"case": c.id, "supported": c.support.supported, "how": c.support.why} for c in found]
        typer.echo(json.dumps(kinds, indent=1))
        return
    for case in found:
        note = "" if case.support.supported else f"  unsupported: {case.support.why}"
        typer.echo(f"{case.id}{note}")


@app.command(rich_help_panel=READ)
def show(
    selectors: Selectors = None, results: Results = runner.RESULTS, machine: Machines = None, as_json: AsJson = False
) -> None:
    """The record of each case that counts, as lines or as one JSON array of flat rows."""
    from framebench.analysis.frames import rows
    from framebench.analysis.results import Results as Folder
    from framebench.analysis.selection import select_cases

    folder, wanted = Folder(results), named(selectors)
    machines = machines_of(folder, machine, has(folder, selectors))
    found = kept(selectors, machines, folder)
    if as_json:  # a row's ratios are to other cases
        every = rows(r for r in folder.records if r.provenance.machine in machines)
        chosen_rows = [row._asdict() for row in every if wanted(row.case)]
        typer.echo(json.dumps(chosen_rows, indent=1, default=lambda moment: moment.isoformat()))
        return
    if not found:
        fail(f"no such records under {results}; measure first: framebench run, or make bench", 1)
    selected = [measured.read for measured in select_cases(found)]
    several = len({r.case for r in selected}) < len(selected)
    times = {(row.machine, row.framework_version, row.case): row.step_time_s for row in rows(found)}
    for record in selected:
        origin = f"  {record.provenance.machine}, {record.framework_version or '-'}" if several or machine == ALL else ""
        step_s = times[record.provenance.machine, record.framework_version, record.case]
        typer.echo(f"{line(record, step_s)}{origin}")


def has(found: Folder, selectors: list[str] | None) -> Callable[[str], bool]:
    """Whether a machine has records of the cases that are named. Raises UnknownCase."""
    wanted = named(selectors)
    return lambda machine: not selectors or any(wanted(record.case) for record in found.of_machine(machine))


def kept(selectors: list[str] | None, machines: list[str], found: Folder) -> list[Record]:
    """The records of the cases that are named, and of these machines. Raises UnknownCase."""
    wanted = named(selectors)
    return [r for r in found.records if wanted(r.case) and r.provenance.machine in machines]


def named(selectors: list[str] | None) -> Callable[[str], bool]:
    """Whether a record's case is one of those named, in any size unless it is stated. Without names every one is, also a
    combination that no profile has. Raises UnknownCase."""
    if not selectors:
        return lambda case: True
    return {c.id for c in chosen(selectors, [], size="*")}.__contains__


@app.command(rich_help_panel=READ)
def answer(results: Results = runner.RESULTS, machine: Machine = None) -> None:
    """One table: what each workload needs in each framework, what saved most memory, and where the rest is."""
    from framebench.analysis.reports.answer import answer as table
    from framebench.analysis.results import Results as Folder

    folder = Folder(results)
    table(folder.table(machine_of(folder, machine))).terminal(out)


@app.command(rich_help_panel=BUDGET)
def predict(
    case: Annotated[str, typer.Argument(help="workload/framework/scenario/strategy/bN/size, with any batch")],
    ranks: Annotated[int | None, typer.Option(help="of one rank of so many, which share the batch; 2 to 1024")] = None,
    results: Results = runner.RESULTS,
    machine: Machines = None,
    as_json: AsJson = False,
) -> None:
    """The peak of a case without running it: lower bound, fake tensors (PyTorch, eager), and what advise judges by, which are
    records and searches; of a strategy over ranks the peak of the fullest rank."""
    if ranks is not None or named_cases.asks_for_ranks(case):
        return predict_rank(hypothetical.over_ranks(case, ranks), as_json)
    asked = hypothetical.named(case)
    found = predictions(asked, machine, results)
    if as_json:
        typer.echo(json.dumps({"case": asked.id, "predictions": found}, indent=1))
        return
    typer.echo(asked.id)
    for one in found:
        interval = f" ({one['low'] / 2**20:,.1f} to {one['high'] / 2**20:,.1f})" if one.get("low") is not None else ""
        peak = "-" if one["bytes"] is None else f"{one['bytes'] / 2**20:,.1f} MiB{interval}"
        typer.echo(f"  {one['method']:<13} {peak:>13}  {one['note']}")


def predict_rank(case: Case, as_json: bool) -> None:
    from framebench.features.ranks.predicted import Unpredicted
    from framebench.features.ranks.predicted import predict as predicted

    try:
        if why := hypothetical.obstacle(case):  # before an environment is built for nothing
            raise Unpredicted(f"{case.id}: {why}")
        with err.status(case.id):
            found = predicted(case, environments.ensure(case.framework, say=say))
    except Unpredicted as error:
        fail(str(error), 2)
    if as_json:
        typer.echo(found.model_dump_json(indent=1))
        return
    typer.echo(f"{found.case}, rank {found.rank} of {found.ranks}: {found.note}")
    for name, size in {"predicted peak": found.peak_bytes, **{f"  {name}": size for name, size in found.parts.items()}}.items():
        typer.echo(f"  {name:<40} {size / 2**20:>10,.1f} MiB")


def predictions(case: Case, machine: str | None, results: Path) -> list[dict[str, Any]]:
    """Bytes by method; None with the reason where a method cannot tell. An unknown machine ends the command."""
    from framebench.analysis.lower_bound import lower_bound
    from framebench.analysis.results import Results as Folder

    folder = Folder(results)
    of = cache(lambda name: from_records(case, name, folder))
    machines = machines_of(folder, machine, lambda name: of(name)["bytes"] is not None)
    found: list[dict[str, Any]] = [
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
        found.append(fake | {"note": why})
    else:
        environment = environments.ensure("torch", say=say)
        printed = environments.run_module(environment, "framebench.features.predict.worker", case.id, OMP_NUM_THREADS="1")
        peak = json.loads(printed.splitlines()[-1])["predicted"]
        found.append(fake | {"bytes": peak, "note": f"torch {environment.version}, eager, as on a CPU; no kernel's workspace"})
    for name in machines:
        found += [of(name), *from_searches(case, name, folder)]
    return found


def from_records(case: Case, machine: str, folder: Folder) -> dict[str, Any]:
    """What `advise` judges by: the peak, and what a limit on memory has to be."""
    from framebench.analysis.peaks import MARGIN, evidence_about, expected, limited_instrument
    from framebench.analysis.results import NoRecords

    rows, _ = evidence_about(folder.root, machine, case.workload, case.scenario)
    try:
        peak, row = expected(rows, case, folder.searches)
    except NoRecords as error:
        return {"method": "records", "instrument": None, "bytes": None, "note": str(error)}
    needs = f"needs {peak.needs / 2**20:,.1f} MiB with {peak.kept / 2**20:,.1f} MiB kept beside it and {MARGIN - 1:.0%} more"
    where = f"{limited_instrument(row)} on {machine}, {case.framework} {row.framework_version}"
    return {
        "method": "records", "instrument": limited_instrument(row), "bytes": round(peak.value), "low": peak.low,
        "high": peak.high, "kept_bytes": peak.kept, "needs_bytes": peak.needs, "kind": peak.kind, "machine": machine,
        "note": f"{where}: {peak.kind}, {peak.method}; {needs}",
    }  # fmt: skip


def from_searches(case: Case, machine: str, folder: Folder) -> Iterator[dict[str, Any]]:
    """What searches under a limit tell about this batch, whatever is predicted."""
    for tried in folder.searches.of_case(case, machine):
        (fit,) = tried.fits
        verdict = {True: "fits", False: "does not fit", None: "was not tried"}[tried.verdict(case.batch, fit.budget_bytes)]
        note = f"b{case.batch} {verdict} within {fit.budget_bytes / 2**20:,.1f} MiB on {machine}: {fit.answer.split(' (')[0]}"
        yield {"method": "search", "instrument": None, "bytes": None, "note": note, "budget_bytes": fit.budget_bytes}
