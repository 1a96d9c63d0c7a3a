"""Open a user's model file where a command asks about one of its cases.

Either its baseline is run first and must come out right, or it is known by its shapes alone and
nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from framebench.cli.shared import err, say
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.suite.case import Case
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.shapes import FACTS, look_into
from framebench.user_file.trial import UserModel


@contextmanager
def open_model(
    file: Path,
    scenario: str,
    strategies: list[str],
    batch: int,
    env: str | None,
    results: Path,
) -> Iterator[tuple[list[Case], Environment, Path]]:
    """Run the baseline, and let workers know the file in this context.

    Yields the cases of these strategies, or the baseline's without any, the environment where they
    run, and the folder of their records. Raises Fault.
    """
    model = trial.inspect_file(file, batch, scenario=scenario)
    strategies = strategies or [model.baseline.strategy]
    trial.list_cases(model, strategies)  # refuses an unknown strategy before anything runs
    environment = trial.choose_environment(model, env, say)
    with trial.use_model(model):
        with err.status(f"{file.name}: reference") as status:

            def show_phase(phase: str) -> None:
                status.update(f"{file.name}: {phase}")

            survey = trial.run_baseline(model, environment, runner.Options(), show_phase)
        say(trial.describe_facts(model, survey["facts"]))
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
    """Let workers know the file in this context, of which nothing is run.

    Yields the cases of these strategies, or the baseline's without any, by strategy why others are
    left out, and the environment where they would run. Raises Fault.
    """
    model = trial.inspect_file(file, batch, scenario=scenario)
    if model.framework != "torch":
        raise Fault(
            f"{file.name} is in {model.framework}, and only PyTorch has tensors without numbers: "
            f"`framebench explain {file}` and `max-batch {file} --budget 4GiB` run it"
        )
    strategies = strategies or [model.baseline.strategy]
    trial.list_cases(model, strategies)  # refuses an unknown strategy before anything runs
    environment = trial.choose_environment(model, env, say)
    with trial.use_model(model) as folder:
        with err.status(f"{file.name}: shapes"):
            look_into(model, environment, folder)
        cases, left_out = trial.list_cases(model, strategies)
        yield [case for case in cases if case.strategy in strategies], left_out, environment


@dataclass(frozen=True)
class DeviceQuestion:
    """The cases of a user's file that are asked about for a device that is not here."""

    cases: list[Case]  # the baseline first
    left_out: dict[str, str]  # by strategy why it does not apply
    # where they are planned; None: where the device's compiler is
    environment: Environment | None
    has_convolutions: bool


@contextmanager
def open_for_device(
    model: UserModel, strategies: list[str] | None, env: str | None
) -> Iterator[DeviceQuestion]:
    """Let planners know the file in this context, of which nothing is run.

    Without strategies the cases are those of all that apply. Raises Fault.
    """
    if model.framework not in FACTS:
        raise Fault(
            f"{model.file.name}: --device takes a model in {' or '.join(FACTS)}; this one is in "
            f"{model.framework}",
        )
    trial.list_cases(model, strategies)  # refuses an unknown strategy before anything runs
    environment = trial.choose_environment(model, env, say)
    with trial.use_model(model) as folder, err.status(f"{model.file.name}: shapes"):
        facts = look_into(model, environment, folder)
        cases, left_out = trial.list_cases(model, strategies, explain_unsupported)
        # without one, JAX's plans are made in an environment that has the device's compiler
        planner = environment if model.framework == "torch" or env else None
        yield DeviceQuestion(cases, left_out, planner, bool(facts.get("convolutions")))


def explain_unsupported(case: Case) -> str | None:
    """Return why no machine can measure the case; None if one with the device can."""
    return None if case.support.supported else case.support.why
