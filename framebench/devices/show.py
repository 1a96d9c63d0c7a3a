"""What `predict --device` says: each case as it is planned, and a table at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from framebench.cli.shared import err, fail, out, say
from framebench.devices.catalog import find
from framebench.devices.plans import planning
from framebench.devices.plans.naming import cases_of
from framebench.devices.plans.planned import Planned


def predict_on_device(selectors: Sequence[str], name: str, results: Path, as_json: bool, again: bool = False) -> None:
    """Plan the cases, those that were planned before taken up; ends with exit code 1 if one failed."""
    device = find(name)
    cases = cases_of(selectors)
    with err.status(f"{device.title}: {len(cases)} cases") as status:
        count = 0

        def told(planned: Planned, kept: bool) -> None:
            nonlocal count
            count += 1
            status.update(f"{device.title}: {count} of {len(cases)} cases")
            if not kept and len(cases) > 1 and planned.outcome != "not planned":  # the table has why
                err.print(line(planned), markup=False, highlight=False, soft_wrap=True)

        try:
            predictions = planning.plan_all(cases, device, results, say, told, again)
        except KeyboardInterrupt:
            fail("interrupted; what was planned is kept, and the same command goes on from there", 130)
    if as_json:
        typer.echo(json.dumps([json.loads(one.model_dump_json()) for one in predictions], indent=1))
    else:
        from framebench.devices.tables import table

        table.of_cases(predictions, device).terminal(out)
        if len(predictions) == 1 and predictions[0].outcome == "planned":
            table.parts(predictions[0], device).terminal(out)
    if any(one.outcome == "failed" for one in predictions):
        raise typer.Exit(1)


def explain_on_device(selector: str, name: str, results: Path, as_json: bool) -> None:
    """What the peak of one case is made of, and which lines of the source hold most of it."""
    device, cases = find(name), cases_of([selector])
    if len(cases) != 1:
        fail(f"{selector!r} names {len(cases)} cases, and explain is about one", 2)
    with err.status(f"{device.title}: {cases[0].id}"):
        (planned,) = planning.plan_all(cases, device, results, say)
    if planned.outcome != "planned":
        fail(f"{planned.case} on {device.name}: {planned.outcome}: {planned.reason}", 1 if planned.outcome == "failed" else 2)
    if as_json:
        typer.echo(planned.model_dump_json(indent=1))
        return
    from framebench.devices.tables import table

    table.parts(planned, device).terminal(out)


def line(planned: Planned) -> str:
    """One case in one line."""
    told = (
        f"{planned.peak_bytes / 2**20:,.1f} MiB" if planned.peak_bytes is not None else f"{planned.outcome}: {planned.reason}"
    )
    return f"{planned.case}: {told} ({planned.origin.wall_s:.0f} s)"
