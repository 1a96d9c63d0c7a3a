"""`framebench dev reported`: what releases of JAX plan for programs that users reported."""

from __future__ import annotations

from typing import Annotated

import typer

from framebench.cli.shared import ResultsOption, out, say, show_work
from framebench.cli.upkeep import dev
from framebench.devices.catalog import find
from framebench.devices.plans.planning import ensure_environment
from framebench.devices.plans.version import is_current
from framebench.devices.releases import reported
from framebench.engine import runner


@dev.command("reported")
def reported_(
    version: Annotated[
        list[str] | None,
        typer.Option(help="of JAX; may be repeated. None: only show what is cached"),
    ] = None,
    device: Annotated[str, typer.Option(help="target device")] = "h100-80gb",
    results: ResultsOption = runner.RESULTS,
) -> None:
    """Plan programs that users reported, by the compilers of these releases of JAX."""
    target = find(device)
    cached = {
        one.framework_version for one in reported.read(results, target.name) if is_current(one.code)
    }
    for name in version or ():
        if name not in cached:
            environment = ensure_environment("jax", target, name, say)
            with show_work(f"jax {name}: planning programs for {target.title}"):
                reported.write(results, reported.plan_reports(target, environment))
    for table in reported.make_tables(results, target.name):
        table.terminal(out)
