"""A model of the user's own: `try`."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.measuring import Env
from framebench.cli.shared import MEASURE, AsJson, app, broken, err, fail, measuring, out, say
from framebench.measure import blocks as measured
from framebench.measure import installed, own, runner
from framebench.measure.groups import Group
from framebench.measure.live import Arm
from framebench.measure.own import UserModel
from framebench.measure.progress import CaseProgress
from framebench.records.record import Record
from models.own.loading import Fault

FOLDER = runner.RESULTS / "own"


@app.command("try", rich_help_panel=MEASURE)
def try_(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="a Python file; docs/try.md says what it needs")],
    batch: Annotated[int, typer.Option(min=1, help="samples of one step")] = 8,
    strategies: Annotated[str | None, typer.Option(help="some, such as amp_bf16,checkpoint; by default all that apply")] = None,
    blocks: Annotated[int, typer.Option(min=1, help="fresh processes of each strategy; 3 or more for intervals")] = 3,
    rounds: Annotated[int, typer.Option(min=0, help="turns of each process in a block; 0: memory alone, no times")] = 8,
    time_limit: Annotated[float, typer.Option(min=0.01, help="seconds for each of a strategy's processes")] = 900.0,
    framework: Annotated[str | None, typer.Option(help="where the file imports several")] = None,
    results: Annotated[
        Path | None, typer.Option(file_okay=False, help="folder of the records; by default results/own/NAME")
    ] = None,
    env: Env = None,
    as_json: AsJson = False,
) -> None:
    """Your own model under every strategy that applies, verified against its own float32 baseline: the file has model(),
    batch(n) and loss(output, target), in PyTorch."""
    try:
        model = own.look(file, batch, framework)
        where = results or FOLDER / model.name
        options = runner.Options(rounds=rounds, time_limit_s=time_limit)
        with own.known(model), measuring(where):
            found, left_out = measure(model, strategies, options, blocks, where, env)
    except Fault as error:
        fail(str(error), 2)
    show(found, left_out, as_json)
    raise typer.Exit(broken([r.status for r in found], "records"))


def measure(
    model: UserModel, strategies: str | None, options: runner.Options, blocks: int, where: Path, env: str | None
) -> tuple[list[Record], dict[str, str]]:
    """The records of this session, and why strategies were left out. Raises Fault."""
    environment = installed.ready([model.framework], env, say)[model.framework]
    named = strategies.split(",") if strategies else None
    own.cases(model, named)  # a strategy that does not exist is told before anything runs
    with err.status(f"{model.file.name}: survey") as status:
        seen = own.survey(model, environment, options, lambda phase: status.update(f"{model.file.name}: {phase}"))
    say(own.in_short(model, seen["facts"]))
    cases, left_out = own.cases(model, named)
    arms = [Arm(case, environment) for case in cases]
    group = Group(f"{model.name}/{environment.name}/b{model.batch}", tuple(arms[:1]), tuple(arms[1:]))
    with (
        CaseProgress(cases, where, err, blocks) as progress,
        measured.Run(secrets.token_hex(6), options, where, progress) as run,
    ):
        measured.measure([group], run, blocks)
        return [record for arm in arms for record in run.records(arm)], left_out


def show(found: list[Record], left_out: dict[str, str], as_json: bool) -> None:
    """One table, and what is not in it; as JSON the rows of `framebench show --json`."""
    from analysis import frames
    from analysis.reports import own as report

    if as_json:
        rows = [row._asdict() for row in frames.rows(found)]
        typer.echo(json.dumps(rows, indent=1, default=lambda moment: moment.isoformat()))
        return
    report.table(frames.frame(found), left_out).terminal(out)
