"""The command that says where a peak comes from, and why another one differs: `explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import (
    MEASURE,
    AsJson,
    Env,
    Results,
    app,
    echo,
    err,
    fail,
    file_to_write,
    measuring,
    out,
    say,
)
from framebench.engine import environments, releases, runner
from framebench.engine.environments import Environment
from framebench.explain import measure
from framebench.explain.measure import Unexplained
from framebench.explain.record import Explanation
from framebench.suite import hypothetical
from framebench.suite.case import Case, UnknownCase
from framebench.suite.user_file import Fault
from framebench.user_file.opening import open_model

CASE_HELP = "workload/framework/scenario/strategy/bN/size, with any batch; or your own file"
AGAINST_HELP = (
    "Show how the peak differs from that of another case. A version may follow: "
    "CASE@0.9.2, or @0.9.2."
)


@app.command(rich_help_panel=MEASURE)
def explain(
    case: Annotated[str, typer.Argument(help=CASE_HELP)],
    against: Annotated[str | None, typer.Option(help=AGAINST_HELP)] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            callback=file_to_write, help="An SVG file for a picture of memory over the step."
        ),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(help="Version of the framework, such as 0.9.2. Default: the pinned one."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="Explain the prediction for a device that is not here, such as h100-80gb."
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Batch size of a file of your own.")] = 8,
    scenario: Annotated[
        str, typer.Option(help="Scenario of a file of your own: train or eval.")
    ] = "train",
    strategy: Annotated[
        str | None, typer.Option(help="Strategy of a file of your own. Default: its baseline.")
    ] = None,
    env: Env = None,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Where does the peak of a steady step come from?

    Shows what is held at the fullest moment, by kind, layer and phase.

    With --against: how the peak differs from that of another case, by layer and kind, to the byte.
    With --device: the parts of the peak on a device that is not here, and the lines of the source
    that hold most.
    """
    if device is not None:
        if against or to or version:
            fail("--device tells the parts of one case: leave --against, --to and --version out", 2)
        from framebench.devices.show import explain_on_device

        return explain_on_device(case, device, results, as_json)
    if to and to.suffix != ".svg":
        fail(f"--to {to}: the figure is an SVG file; name it {to.with_suffix('.svg')}", 2)
    base = None
    try:
        if case.endswith(".py"):
            if against or version:
                fail(f"--against and --version take the suite's cases, and {case} is a file", 2)
            explanation = explain_file(Path(case), scenario, strategy, batch, env, results)
        else:
            explanation, base = explain_cases(case, version, against, results)
    except (Fault, Unexplained) as error:
        fail(str(error), 2)
    if to:
        save_figure(explanation, to)
    if base:
        show_difference(base, explanation, as_json)
    else:
        show(explanation, as_json)


def explain_file(
    file: Path, scenario: str, strategy: str | None, batch: int, env: str | None, results: Path
) -> Explanation:
    """Explain a step of a user's own model. Raises Fault and Unexplained."""
    strategies = [strategy] if strategy else []
    with (
        measuring(results),
        open_model(file, scenario, strategies, batch, env, results) as (cases, environment, _),
    ):
        return measure.explain(cases[0], environment)


def explain_cases(
    case_id: str, version: str | None, against: str | None, results: Path
) -> tuple[Explanation, Explanation | None]:
    """Explain a case, and the one that it is compared with, if any.

    Raises UnknownCase, SetupError and Unexplained.
    """
    case = hypothetical.parse_any_batch(case_id)
    check_explainable(case, version)
    if not against:
        return explain_release(case, version, results), None
    other, other_version = parse_other(against, case)
    check_explainable(other, other_version)
    return explain_release(case, version, results), explain_release(other, other_version, results)


def check_explainable(case: Case, version: str | None) -> None:
    """Raise Unexplained or SetupError for a case or a version without an account, before an
    environment is built.
    """
    obstacle = measure.explain_unsupported_breakdown(case)
    if obstacle:
        raise Unexplained(f"{case.id}: {obstacle}")
    releases.find_environment(case.framework, version)


def explain_release(case: Case, version: str | None, results: Path) -> Explanation:
    """Explain a case in a version of its framework, or in the pinned one.

    Raises SetupError and Unexplained.
    """
    with measuring(results), err.status(case.id):
        return measure.explain(case, prepare_environment(case.framework, version))


def prepare_environment(framework: str, version: str | None) -> Environment:
    """Return the environment of a version, built if it is not there. Raises SetupError."""
    environment = releases.find_environment(framework, version)
    if environments.built(environment):
        return environment  # maybe of a version that is not pinned, which a bisection has left here
    return environments.ensure(framework, version, say)


def parse_other(text: str, case: Case) -> tuple[Case, str | None]:
    """Return case and version of `CASE@0.9.2`, of which either may be left out.

    Raises UnknownCase.
    """
    case_id, at, version = text.partition("@")
    if at and not version:
        raise UnknownCase(
            f"--against {text}: a version follows the @, as in {case_id}@0.9.2; "
            "without @ it is the pinned one"
        )
    other = hypothetical.parse_any_batch(case_id) if case_id else case
    return other, version or None


def save_figure(explanation: Explanation, to: Path) -> None:
    """Draw memory over the step into an SVG file."""
    from framebench.analysis.figures import render_svg
    from framebench.explain.figure import draw_step

    to.write_text(render_svg(draw_step(explanation)), encoding="utf-8")
    say(f"wrote {to}")


def show(explanation: Explanation, as_json: bool) -> None:
    """Print what holds the peak of one step."""
    if as_json:
        echo(explanation.model_dump_json())
        return
    from framebench.explain import table

    table.tabulate_kinds(explanation).terminal(out)
    table.tabulate_layers(explanation).terminal(out)
    hint = table.advise_no_grad(explanation)
    if hint:
        say(hint)


def show_difference(base: Explanation, change: Explanation, as_json: bool) -> None:
    """Print what one peak has more of than another."""
    from framebench.explain import against

    if as_json:
        echo(json.dumps(against.as_json(base, change), indent=1))
    else:
        against.make_table(base, change).terminal(out)
