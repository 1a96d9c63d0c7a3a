"""The command that says where a peak comes from, and why another one differs: `explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import MEASURE, AsJson, Env, Results, app, err, fail, file_to_write, measuring, out, say
from framebench.engine import environments, releases, runner
from framebench.engine.environments import Environment
from framebench.explain.measure import Unexplained, obstacle
from framebench.explain.measure import explain as account
from framebench.explain.record import Explanation
from framebench.suite import hypothetical
from framebench.suite.case import Case, UnknownCase
from framebench.suite.user_file import Fault
from framebench.user_file.opening import open_model


@app.command(rich_help_panel=MEASURE)
def explain(
    case: Annotated[str, typer.Argument(help="workload/framework/scenario/strategy/bN/size, with any batch; or your own file")],
    against: Annotated[
        str | None,
        typer.Option(help="Show how the peak differs from that of another case. A version may follow: CASE@0.9.2, or @0.9.2."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(callback=file_to_write, help="An SVG file for a picture of memory over the step.")
    ] = None,
    version: Annotated[
        str | None, typer.Option(help="Version of the framework, such as 0.9.2. Default: the pinned one.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Explain the prediction for a device that is not here, such as h100-80gb.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Of a file of your own.")] = 8,
    scenario: Annotated[str, typer.Option(help="Of a file of your own: train or eval.")] = "train",
    strategy: Annotated[str | None, typer.Option(help="Of a file of your own. Default: its baseline.")] = None,
    env: Env = None,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Where does the peak of a steady step come from? Shows what is held at the fullest moment, by kind, layer and phase.

    With --against: how the peak differs from that of another case, by layer and kind, to the byte. With --device: the parts
    of the peak on a device that is not here, and the lines of the source that hold most.
    """
    if device is not None:
        if against or to or version:
            fail("--device tells the parts of one case: leave --against, --to and --version out", 2)
        from framebench.devices.show import explain_on_device

        return explain_on_device(case, device, results, as_json)
    if to and to.suffix != ".svg":
        fail(f"--to {to}: the figure is an SVG file; name it {to.with_suffix('.svg')}", 2)
    if case.endswith(".py"):
        if against or version:
            fail(f"--against and --version take the suite's cases, and {case} is a file", 2)
        return of_file(Path(case), scenario, strategy, batch, env, results, to, as_json)
    asked = hypothetical.parse_any_batch(case)
    wanted = [(asked, version), *([other(against, asked)] if against else [])]
    try:
        for one, _ in wanted:
            if why := obstacle(one):  # before an environment is built for nothing
                raise Unexplained(f"{one.id}: {why}")
        for one, release in wanted:
            releases.known(one.framework, release)  # likewise
        explanations = [_explained_in(one, release, results) for one, release in wanted]
    except Unexplained as error:
        fail(str(error), 2)
    draw(explanations[0], to)
    show(*explanations, as_json=as_json)


def of_file(
    file: Path, scenario: str, strategy: str | None, batch: int, env: str | None, results: Path, to: Path | None, as_json: bool
) -> None:
    """A user's own model."""
    try:
        with (
            measuring(results),
            open_model(file, scenario, [strategy] if strategy else [], batch, env, results) as (cases, environment, _),
        ):
            explanation = account(cases[0], environment)
    except (Fault, Unexplained) as error:
        fail(str(error), 2)
    draw(explanation, to)
    show(explanation, as_json=as_json)


def draw(explanation: Explanation, to: Path | None) -> None:
    if to:
        from framebench.analysis.figures import svg
        from framebench.explain import table as explained

        to.write_text(svg(explained.figure(explanation)), encoding="utf-8")
        say(f"wrote {to}")


def other(text: str, asked: Case) -> tuple[Case, str | None]:
    """Case and version of `CASE@0.9.2`, either of which may be left out. Raises UnknownCase."""
    case, at, version = text.partition("@")
    if at and not version:
        raise UnknownCase(f"--against {text}: a version follows the @, as in {case}@0.9.2; without @ it is the pinned one")
    return (hypothetical.parse_any_batch(case) if case else asked), version or None


def at_hand(framework: str, version: str | None) -> Environment:
    """Of a release, the pinned one built if it is not there. Raises SetupError."""
    environment = releases.known(framework, version)
    return environment if environments.built(environment) else environments.ensure(framework, version, say)


def _explained_in(case: Case, version: str | None, results: Path) -> Explanation:
    with measuring(results), err.status(case.id):
        return account(case, at_hand(case.framework, version))


def show(explanation: Explanation, base: Explanation | None = None, *, as_json: bool) -> None:
    from framebench.explain import against
    from framebench.explain import table as explained

    if base and as_json:
        typer.echo(json.dumps(against.as_json(base, explanation), indent=1))
    elif base:
        against.table(base, explanation).terminal(out)
    elif as_json:
        typer.echo(explanation.model_dump_json())
    else:
        for table in (explained.by_kind(explanation), explained.by_layer(explanation)):
            table.terminal(out)
        if told := explained.kept_for_nothing(explanation):
            say(told)
