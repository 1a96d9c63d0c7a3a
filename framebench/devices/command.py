"""The command that lists the devices which cases are planned for: `devices`."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from framebench.cli.shared import BUDGET, AsJson, Results, app, fail, out
from framebench.devices.catalog import DEVICES
from framebench.engine import runner


@app.command(rich_help_panel=BUDGET)
def devices(
    name: Annotated[str, typer.Argument(help="Part of a name or title, such as a100 or 40gb. Default: all.")] = "",
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """List the devices that `--device` takes, and how many predictions are kept for each. No such device is needed."""
    named = [device for device in DEVICES if name.lower() in f"{device.name} {device.title}".lower()]
    if not named:
        fail(f"no device has {name!r} in its name; devices: {', '.join(device.name for device in DEVICES)}", 2)
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(device) for device in named], indent=1))
        return
    from framebench.devices.plans.store import every, own
    from framebench.devices.tables import table
    from framebench.devices.tables.kept import kept

    table.catalog(named).terminal(out)
    if name:
        return
    if answers := kept(list(every(results))):
        answers.terminal(out)
    if own(results) != results and (answers := kept(list(every(own(results))), "Predictions of your own")):
        answers.terminal(out)
