"""The command that lists the devices which cases are planned for: `devices`."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from framebench.cli.shared import BUDGET, AsJson, ResultsOption, app, echo, fail, out
from framebench.devices.catalog import BY_NAME, DEVICES
from framebench.records import provenance


@app.command(rich_help_panel=BUDGET)
def devices(
    name: Annotated[
        str, typer.Argument(help="Part of a name or title, such as a100 or 40gb. Default: all.")
    ] = "",
    results: ResultsOption = provenance.READABLE,
    as_json: AsJson = False,
) -> None:
    """List the devices that `--device` takes, and how many predictions are cached for each.

    No such device is needed.
    """
    matching = [
        device for device in DEVICES if name.lower() in f"{device.name} {device.title}".lower()
    ]
    if not matching:
        fail(f"no device has {name!r} in its name; devices: {', '.join(BY_NAME)}", 2)
    if as_json:
        echo(json.dumps([dataclasses.asdict(device) for device in matching], indent=1))
        return
    from framebench.devices.plans.store import list_folders, read_every
    from framebench.devices.tables import table

    table.tabulate_devices(matching).terminal(out)
    if name:
        return
    titles = ("Cached predictions", "Your cached predictions")
    for title, folder in zip(titles, list_folders(results)):
        cached = table.list_cached(read_every(folder), title)
        if cached:
            cached.terminal(out)
