"""Open a user's model file for a command that asks about some of its cases.

Either its baseline is run first and must come out right, or only its shapes are read, and nothing
is run, measured or verified.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framebench.cli.shared import err, say, show_progress
from framebench.engine import environments, runner
from framebench.engine.environments import Environment
from framebench.engine.shortages import check_disks
from framebench.suite.case import Case
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.trial import UserModel

SHAPED = ("torch", "jax")  # frameworks that can look into a file without running a step of it
FACTS_LIMIT_S = 600.0  # for building a model without numbers, and importing what it needs
# of a process that runs the baseline or a strategy (docs/try.md)
USUAL_TIME = "up to 45 s for a small model on two cores, more on a busy machine"


@contextmanager
def open_model(
    file: Path,
    scenario: str,
    strategies: list[str],
    batch: int,
    env: str | None,
    results: Path,
) -> Iterator[tuple[list[Case], Environment, Path]]:
    """Run the baseline, and let workers find the file while the context is open.

    Yields three things: the cases of these strategies (without any, the baseline's), the
    environment where they run, and the folder of their records. Raises Fault.
    """
    model = trial.inspect_file(file, batch, scenario=scenario)
    strategies = strategies or [model.baseline.strategy]
    with use_in_environment(model, strategies, env) as (environment, _):
        say(f"{file.name}: running the baseline first, {USUAL_TIME}")
        survey_baseline(model, environment, runner.Options())
        cases, left_out = trial.list_cases(model, strategies)
        for name in strategies:
            if name in left_out:
                raise Fault(f"{file.name}: {name}: {left_out[name]}")
        if results == runner.RESULTS:
            results = results / "own" / model.folder
        yield [case for case in cases if case.strategy in strategies], environment, results


@contextmanager
def open_shapes(
    file: Path, scenario: str, strategies: list[str], batch: int, env: str | None
) -> Iterator[tuple[list[Case], dict[str, str], Environment]]:
    """Let workers find the file while the context is open, but run none of its steps.

    Yields three things: the cases of these strategies (without any, the baseline's), the reason by
    strategy of those that are left out, and the environment where they would run. Raises Fault.
    """
    model = trial.inspect_file(file, batch, scenario=scenario)
    if model.framework != "torch":
        raise Fault(
            f"{file.name} is in {model.framework}, and only PyTorch has tensors without numbers: "
            f"`framebench explain {file}` and `max-batch {file} --budget 4GiB` run it"
        )
    strategies = strategies or [model.baseline.strategy]
    with use_in_environment(model, strategies, env) as (environment, folder):
        look_into(model, environment, folder)
        cases, left_out = trial.list_cases(model, strategies)
        yield [case for case in cases if case.strategy in strategies], left_out, environment


@dataclass(frozen=True)
class DeviceQuestion:
    """The cases of a user's file that are asked about for a device that is not here."""

    cases: list[Case]  # the baseline first
    left_out: dict[str, str]  # by strategy, the reason why it does not apply
    # where the cases are planned; None stands for the environment with the device's compiler
    environment: Environment | None
    has_convolutions: bool


@contextmanager
def open_for_device(
    model: UserModel, strategies: list[str] | None, env: str | None
) -> Iterator[DeviceQuestion]:
    """Let planners know the file in this context, but run none of its steps.

    Without strategies the cases are those of all that apply. Raises Fault.
    """
    if model.framework not in SHAPED:
        raise Fault(
            f"{model.file.name}: --device takes a model in {' or '.join(SHAPED)}; this one is in "
            f"{model.framework}",
        )

    def explain_unsupported(case: Case) -> str | None:
        return None if case.support.supported else case.support.why

    with use_in_environment(model, strategies, env) as (environment, folder):
        facts = look_into(model, environment, folder)
        # whatever this machine lacks does not matter here
        cases, left_out = trial.list_cases(model, strategies, explain_unsupported)
        # without one, JAX's plans are made in an environment that has the device's compiler
        planner = environment if model.framework == "torch" or env else None
        yield DeviceQuestion(cases, left_out, planner, bool(facts.get("convolutions")))


@contextmanager
def use_in_environment(
    model: UserModel, strategies: list[str] | None, env: str | None
) -> Iterator[tuple[Environment, Path]]:
    """Let workers find the user's model while the context is open; yield environment and folder.

    Raises Fault for an unknown strategy, before anything runs.
    """
    trial.list_cases(model, strategies)  # raises Fault for an unknown strategy
    environment = trial.choose_environment(model, env, say)
    with trial.use_model(model) as folder:
        yield environment, folder


def survey_baseline(
    model: UserModel, environment: Environment, options: runner.Options
) -> dict[str, Any]:
    """Run the baseline, print its phases and what is in the file, and return what was found.

    Raises Fault.
    """
    with show_progress(f"{model.file.name}: the baseline") as show:
        survey = trial.run_baseline(model, environment, options, show)
    say(trial.describe_facts(model, survey["facts"]))
    loss = trial.describe_loss(survey["facts"])
    if loss:
        say(f"{model.file.name}: {loss}")
    return survey


def look_into(model: UserModel, environment: Environment, folder: Path) -> dict[str, Any]:
    """Find out what is in the file by its shapes, add it to `own.json`, print it, and return it.

    Raises Fault and ModuleTimeout.
    """
    say(f"{model.file.name}: building the model by its shapes alone, seconds to a minute")
    with err.status(f"{model.file.name}: shapes"):
        try:
            answer = environments.ask_module(
                environment,
                "framebench.user_file.facts",
                model.framework,
                str(model.batch),
                variables={"OMP_NUM_THREADS": "1"},
                limit_s=FACTS_LIMIT_S,
            )
        except environments.ModuleTimeout:
            raise environments.ModuleTimeout(
                f"{model.file.name} was not built by its shapes within {FACTS_LIMIT_S:g} s. On a "
                "busy machine the same command may end when it is calm; otherwise look for a "
                "download or a loop without an end in the file"
            ) from None
    if "fault" in answer:
        check_disks(str(answer["fault"]), [environment.folder])
        raise Fault(str(answer["fault"]))
    file = folder / "own.json"
    facts: dict[str, Any] = json.loads(file.read_text()) | answer
    file.write_text(json.dumps(facts))
    say(trial.describe_facts(model, facts))
    return facts
