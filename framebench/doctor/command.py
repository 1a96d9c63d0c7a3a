"""The command that examines a machine: `doctor`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from framebench.cli.shared import (
    UPKEEP,
    AsJson,
    ResultsOption,
    app,
    echo,
    end_command,
    lock_for_measuring,
    out,
    say,
)
from framebench.engine import runner


@app.command(rich_help_panel=UPKEEP)
def doctor(
    as_json: AsJson = False,
    results: ResultsOption = runner.RESULTS,
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
        with lock_for_measuring(results):
            measured = examine.calibrate(say, env)
            examine.save(measured, results)
        findings += measured
    if as_json:
        echo(json.dumps([finding._asdict() for finding in findings], indent=1))
    else:
        for finding in findings:
            mark = "ok " if finding.passed else "NO "
            out.print(f"{mark} {finding.check}: {finding.detail}", markup=False, highlight=False)
    failed = [finding for finding in findings if not finding.passed and not finding.optional]
    end_command(succeeded=not failed)
