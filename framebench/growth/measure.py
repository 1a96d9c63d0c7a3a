"""Read memory from step to step in a process of its own: the parent's side of `worker.py`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from framebench.engine import runner
from framebench.engine.environments import MODULE_LIMIT_S, Environment, SetupError, ask_module
from framebench.engine.runner import Options
from framebench.engine.shortages import check_disks
from framebench.growth.progress import PROGRESS, find_progress
from framebench.growth.record import Growth
from framebench.instruments import host
from framebench.suite.case import Case
from framebench.suite.user_file import list_imports
from framebench.user_file.trial import PACKAGES

WORKER = "framebench.growth.worker"
Progress = Callable[[str], None]  # is told how far the steps are


class NoReadings(Exception):
    """Nothing was read; the message says why."""


def find_framework(script: Path) -> str:
    """Return the framework of a script.

    Raises NoReadings, and Fault where it is no Python or no file that can be read.
    """
    if not script.exists():
        raise NoReadings(f"{script} does not exist: grow takes a case, or a training script")
    imported = list_imports(str(script.absolute()))
    for framework, names in PACKAGES.items():
        if names & imported:
            return framework
    raise NoReadings(f"{script} imports none of {', '.join(PACKAGES)}")


def read_case(
    case: Case,
    environment: Environment,
    steps: int,
    file: Path | None = None,
    limit_s: float = MODULE_LIMIT_S,
    progress: Progress | None = None,
) -> Growth:
    """Read memory after each step of a case, in a fresh process whose malloc returns what it can.

    `file` has the user's `step` that is called in place of the case's own; all of it may take
    `limit_s` seconds. `progress` is told how far it is. Raises NoReadings.
    """
    variables = runner.make_worker_variables(environment, case, "memory", Options())
    arguments = [case.id, str(steps), str(file.absolute()) if file else ""]
    return run_worker(environment, arguments, variables, limit_s, progress)


def read_script(
    script: Path,
    arguments: list[str],
    environment: Environment,
    steps: int,
    step_at: str,
    limit_s: float,
    progress: Progress | None = None,
) -> Growth:
    """Read memory after each step of a user's own script, within so many seconds.

    A step is a call of the function `step_at`, or what the worker takes for one if it is empty.
    `arguments` are the script's own. Raises NoReadings.
    """
    # the script may import what lies on the user's path
    variables = {**host.MALLOC_ENV, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    arguments = [str(script.absolute()), str(steps), step_at, *arguments]
    return run_worker(environment, arguments, variables, limit_s, progress)


def run_worker(
    environment: Environment,
    arguments: list[str],
    variables: dict[str, str],
    limit_s: float,
    progress: Progress | None = None,
) -> Growth:
    """Run the worker, and return what it has read. Raises NoReadings.

    The first of the arguments is the case or script that is followed.
    """
    place = f"{arguments[0]} in {environment.name}"
    arguments = [environment.framework, *arguments]

    def pass_progress_on(errors: str) -> None:
        message = find_progress(errors)
        if progress and message:
            progress(message)

    try:
        answer = ask_module(
            environment,
            WORKER,
            *arguments,
            variables=variables,
            limit_s=limit_s,
            on_errors=pass_progress_on,
        )
        if "fault" in answer:
            check_disks(str(answer["fault"]), [environment.folder])
            raise NoReadings(answer["fault"])
        return Growth.model_validate(answer)
    except SetupError as error:
        lines = [line for line in str(error).splitlines() if not line.startswith(PROGRESS)]
        raise NoReadings(f"{place}: {lines[-1]}") from error
    except ValidationError as error:
        raise NoReadings(f"{place} gave no readings: {error}") from error
