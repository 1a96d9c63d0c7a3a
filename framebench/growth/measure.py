"""Read memory from step to step in a process of its own: the parent's side of `worker.py` and
`script.py`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import ValidationError

from framebench.engine import runner
from framebench.engine.environments import (
    MODULE_LIMIT_S,
    Environment,
    SetupError,
    run_module,
)
from framebench.engine.runner import Options
from framebench.growth.record import Growth
from framebench.instruments import host
from framebench.suite.case import Case
from framebench.suite.user_file import Fault, list_imports

# by framework the packages that a script in it imports
SCRIPT_PACKAGES = {"torch": {"torch"}, "jax": {"jax", "flax"}, "jittor": {"jittor"}}


class NoReadings(Exception):
    """Nothing was read; the message says why."""


def explain_unsupported_growth(case: Case) -> str | None:
    """Return why the growth of this case's memory cannot be read, or None if it can."""
    why = runner.explain_unsupported(case)
    if why:
        return why
    if case.ranks > 1:
        return "grow follows a single process, and not one of several ranks"
    return None


def read_case(
    case: Case,
    environment: Environment,
    steps: int,
    file: Path | None = None,
    limit_s: float = MODULE_LIMIT_S,
) -> Growth:
    """Read memory after each step of a case, in a fresh process whose malloc returns what it can.

    Raises NoReadings.

    Args:
        case: What is run.
        environment: Its framework's.
        steps: How many are read.
        file: The user's file whose `step` is called in place of the case's own.
        limit_s: Seconds for all of it.
    """
    obstacle = explain_unsupported_growth(case)
    if obstacle:
        raise NoReadings(f"{case.id}: {obstacle}")
    variables = runner.make_worker_variables(environment, case, "memory", Options())
    arguments = [case.id, str(steps)]
    if file:
        arguments.append(str(file.absolute()))
    worker = "framebench.growth.worker"
    return run_worker(environment, worker, case.id, arguments, variables, limit_s)


def find_framework(script: Path) -> str:
    """Return the framework of a script. Raises NoReadings."""
    if not script.is_file():
        raise NoReadings(f"{script} does not exist: grow takes a case, or a training script")
    try:
        packages = list_imports(str(script.absolute()))
    except Fault as error:
        raise NoReadings(str(error)) from error
    for framework, names in SCRIPT_PACKAGES.items():
        if names & packages:
            return framework
    raise NoReadings(f"{script} imports none of {', '.join(SCRIPT_PACKAGES)}")


def read_script(
    script: Path,
    arguments: list[str],
    environment: Environment,
    steps: int,
    step_at: str = "",
    limit_s: float = MODULE_LIMIT_S,
) -> Growth:
    """Read memory after each step of a user's own script, within so many seconds.

    A step is a call of the function `step_at`, or what `framebench.growth.script` takes for one if
    it is empty. `arguments` are the script's own.
    Raises NoReadings.
    """
    variables = {
        **host.MALLOC_ENV,
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),  # what the script may import
    }
    options = [environment.framework, str(script.absolute()), str(steps), step_at]
    worker = "framebench.growth.script"
    worker_arguments = [*options, *arguments]
    return run_worker(environment, worker, script.name, worker_arguments, variables, limit_s)


def run_worker(
    environment: Environment,
    worker: str,
    name: str,
    arguments: list[str],
    variables: dict[str, str],
    limit_s: float,
) -> Growth:
    """Run a worker, and return what it has read.

    Raises NoReadings, with the `name` of what is followed.
    """
    try:
        printed = run_module(environment, worker, *arguments, variables=variables, limit_s=limit_s)
        reply = json.loads(printed.splitlines()[-1])
        if "fault" in reply:
            raise NoReadings(reply["fault"])
        return Growth.model_validate(reply)
    except SetupError as error:
        raise NoReadings(f"{name} in {environment.name}: {str(error).splitlines()[-1]}") from error
    except (ValidationError, ValueError, IndexError) as error:
        raise NoReadings(
            f"{name} in {environment.name} ended without an answer: {error}"
        ) from error
