"""Commands that examine a machine, and the harness on it: `doctor | dev overhead`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from framebench.cli.shared import UPKEEP, AsJson, Results, app, echo, measuring, out, say
from framebench.cli.upkeep import dev
from framebench.engine import environments, runner


@app.command(rich_help_panel=UPKEEP)
def doctor(
    as_json: AsJson = False,
    results: Results = runner.RESULTS,
    calibrate: Annotated[
        bool, typer.Option(help="Also measure known sizes and lengths. Takes about a minute.")
    ] = True,
    env: Annotated[
        str | None,
        typer.Option(
            help="`installed`, or the path of a Python. Default: the pinned environments."
        ),
    ] = None,
) -> None:
    """Check this machine, and how wrong its measurements may be. Later records carry the result."""
    from framebench.doctor import measure as examine

    findings = examine.check_machine(env)
    if calibrate:
        with measuring(results):
            measured = examine.calibrate(say=say, env=env)
            examine.save(measured, results)
        findings += measured
    if as_json:
        echo(json.dumps([finding._asdict() for finding in findings], indent=1))
    else:
        for finding in findings:
            mark = "ok " if finding.passed else "NO "
            out.print(f"{mark} {finding.check}: {finding.detail}", markup=False, highlight=False)
    raise typer.Exit(any(not finding.passed and not finding.optional for finding in findings))


@dev.command()
def overhead(
    rounds: Annotated[
        int, typer.Option(min=5, help="Steps of the harness, and of the hand-written loop.")
    ] = 30,
    results: Results = runner.RESULTS,
) -> None:
    """Measure what the harness adds to a step.

    Alternates its step with a hand-written loop in one process and prints harness / loop, the ratio
    of the median step times with a 95 % interval, as JSON.
    """
    from framebench.doctor.measure import OVERHEAD

    with measuring(results):
        environment = environments.ensure("torch", say=say)
        variables = {"OMP_NUM_THREADS": "1"}
        echo(environments.run_module(environment, OVERHEAD, str(rounds), variables=variables))
