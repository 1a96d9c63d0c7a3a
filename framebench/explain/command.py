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
    FileBatch,
    FileScenario,
    ResultsOption,
    TargetDevice,
    app,
    check_file_option,
    echo,
    fail,
    out,
    say,
    show_work,
)
from framebench.engine import environments, releases, runner
from framebench.engine.session import check_idle
from framebench.explain import measure
from framebench.explain.measure import Unexplained
from framebench.explain.record import Explanation
from framebench.records import store
from framebench.suite import hypothetical
from framebench.suite.case import UnknownCase
from framebench.suite.user_file import Fault
from framebench.user_file.opening import open_model
from framebench.user_file.strategies import parse_strategies

CASE_HELP = "workload/framework/scenario/strategy/bN/size, with any batch; or your own file"
AGAINST_HELP = (
    "Show how the peak differs from that of another case. A version may follow: "
    "CASE@0.9.2, or @0.9.2."
)
TO_HELP = "An SVG file for a picture of what the step and its peak hold."


@app.command(rich_help_panel=MEASURE)
def explain(
    case: Annotated[str, typer.Argument(help=CASE_HELP)],
    against: Annotated[str | None, typer.Option(help=AGAINST_HELP)] = None,
    to: Annotated[Path | None, typer.Option(callback=check_file_option, help=TO_HELP)] = None,
    version: Annotated[
        str | None,
        typer.Option(help="Version of the framework, such as 0.9.2. Default: the pinned one."),
    ] = None,
    device: TargetDevice = None,
    batch: FileBatch = 8,
    scenario: FileScenario = "train",
    strategy: Annotated[
        str | None, typer.Option(help="Strategy for your own file. Default: its baseline.")
    ] = None,
    env: Env = None,
    results: ResultsOption = runner.RESULTS,
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
    try:
        if not case.endswith(".py"):
            explanations = explain_cases(case, version, against, results)
        elif against or version:
            fail(f"--against and --version take the suite's cases, and {case} is a file", 2)
        else:
            strategies = parse_strategies(strategy, scenario)
            if len(strategies) > 1:
                fail(f"--strategy {strategy}: explain takes one at a time", 2)
            opened_model = open_model(Path(case), scenario, strategies, batch, env, results)
            check_idle(results)
            with opened_model as (cases, environment, _), show_work(describe(case)):
                explanations = [measure.explain(cases[0], environment)]
    except (Fault, Unexplained) as error:
        fail(str(error), 2)
    show(explanations, to, as_json)


def explain_cases(
    case_id: str, version: str | None, against: str | None, results: Path
) -> list[Explanation]:
    """Return the explained step of a case, and that of `against`, such as `CASE@0.9.2`, if given.

    Raises UnknownCase, SetupError and Unexplained.
    """
    case = hypothetical.parse_any_batch(case_id)
    questions = [(case, version)]
    if against:
        other_id, at, other_version = against.partition("@")
        if at and not other_version:
            raise UnknownCase(
                f"--against {against}: a version follows the @, as in {other_id}@0.9.2; "
                "without @ it is the pinned one"
            )
        other = hypothetical.parse_any_batch(other_id) if other_id else case
        questions.append((other, other_version or None))
    case_environments = []
    for case, version in questions:  # all are checked before the first one runs
        measure.check_explainable(case)
        case_environments.append(releases.find_environment(case.framework, version))
    explanations = []
    # one after the other: two processes would share the machine's memory
    for (case, version), environment in zip(questions, case_environments):
        check_idle(results)
        with show_work(describe(case.id)):
            # it may be of a version that is not pinned, which a bisection has left here
            if not environments.is_built(environment):
                environment = environments.ensure(case.framework, version, say)
            explanations.append(measure.explain(case, environment))
    return explanations


def describe(case: str) -> str:
    """Return the text that is shown while a case or a file is explained."""
    return f"{case}: what holds the peak of a step"


def show(explanations: list[Explanation], to: Path | None, as_json: bool) -> None:
    """Print what holds the peak of one step, or what it has more of than a second one.

    Then write the figure `to`, if it is asked for. Raises OSError.
    """
    # these import pandas
    from framebench.explain import against, table

    explanation, *others = explanations
    base = others[0] if others else None
    if base and as_json:
        echo(json.dumps(against.as_json(base, explanation), indent=1))
    elif base:
        against.make_table(base, explanation).terminal(out)
    elif as_json:
        echo(explanation.model_dump_json())
    else:
        summary = table.summarize_peak(explanation)
        out.print(summary, markup=False, highlight=False, soft_wrap=True)
        table.tabulate_kinds(explanation).terminal(out)
        table.tabulate_layers(explanation).terminal(out)
        hint = table.advise_no_grad(explanation)
        if hint:
            say(hint)
    if to:
        from framebench.analysis.figures import render_svg
        from framebench.explain import figure

        store.replace_text(render_svg(figure.draw_step(explanation)), to)
        say(f"wrote {to}")
