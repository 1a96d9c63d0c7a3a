"""What `predict --device` says: each case as it is planned, and a table at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import typer

from framebench.cli.shared import err, fail, out, say
from framebench.features.devices import planning
from framebench.features.devices.catalog import find
from framebench.features.devices.planned import Planned
from framebench.suite import hypothetical
from framebench.suite.case import Case, UnknownCase
from framebench.suite.selectors import asks_for_ranks, select


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
            if not kept and len(cases) > 1:
                err.print(line(planned), markup=False, highlight=False, soft_wrap=True)

        try:
            predictions = planning.plan_all(cases, device, results, say, told, again)
        except KeyboardInterrupt:
            fail("interrupted; what was planned is kept, and the same command goes on from there", 130)
    if as_json:
        typer.echo(json.dumps([json.loads(one.model_dump_json()) for one in predictions], indent=1))
    else:
        from framebench.features.devices import table

        table.of_cases(predictions, device).terminal(out)
        if len(predictions) == 1 and predictions[0].outcome == "planned":
            table.parts(predictions[0]).terminal(out)
    if any(one.outcome == "failed" for one in predictions):
        raise typer.Exit(1)


def cases_of(selectors: Sequence[str]) -> list[Case]:
    """Those that the selectors name; without globs, one may have any batch, and any number of ranks. Raises UnknownCase."""
    return list(dict.fromkeys(case for selector in selectors for one in choices(selector) for case in _cases(one)))


def choices(selector: str) -> list[str]:
    """With each of `{a,b}` in its place."""
    if not (braces := re.search(r"\{([^{}]*)\}", selector)):
        return [selector]
    return [one for choice in braces[1].split(",") for one in choices(selector.replace(braces[0], choice, 1))]


def _cases(selector: str) -> list[Case]:
    try:
        return select(selector, ranks=True)
    except UnknownCase:
        if any(glob in selector for glob in "*?["):
            raise
    return [hypothetical.over_ranks(selector) if asks_for_ranks(selector) else hypothetical.named(selector)]


def line(planned: Planned) -> str:
    """One case in one line."""
    told = (
        f"{planned.peak_bytes / 2**20:,.1f} MiB" if planned.peak_bytes is not None else f"{planned.outcome}: {planned.reason}"
    )
    return f"{planned.case}: {told} ({planned.origin.wall_s:.0f} s)"
