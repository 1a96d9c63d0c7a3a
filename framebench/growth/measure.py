"""Does memory grow from step to step? The parent's side of `worker.py`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import ValidationError

from framebench.engine import runner
from framebench.engine.environments import Environment, SetupError, run_module
from framebench.engine.runner import Options
from framebench.growth.record import Growth
from framebench.instruments import host
from framebench.suite.case import Case
from framebench.suite.user_file import Fault, list_imports

SCRIPTS = ("torch",)  # frameworks whose optimizers say that a step was made


class NoReadings(Exception):
    """Nothing was read; the message says why."""


def obstacle(case: Case) -> str | None:
    """Why this case cannot be followed, if it cannot."""
    if why := runner.unsupported(case):
        return why
    return "grow follows a single process, and not one of several ranks" if case.ranks > 1 else None


def read(case: Case, environment: Environment, steps: int, file: Path | None = None) -> Growth:
    """So many steps in a fresh process, whose malloc returns what it can. Raises NoReadings."""
    if why := obstacle(case):
        raise NoReadings(f"{case.id}: {why}")
    variables = runner.worker_variables(environment, case, "memory", Options())
    arguments = [case.id, str(steps), *([str(file.absolute())] if file else [])]
    return _answer(environment, "framebench.growth.worker", case.id, arguments, variables)


def followable(script: Path) -> str:
    """The framework whose optimizer's steps are counted. Raises NoReadings."""
    if not script.is_file():
        raise NoReadings(f"{script} does not exist: grow takes a case, or a training script")
    try:
        packages = list_imports(str(script.absolute()))
    except Fault as error:
        raise NoReadings(str(error)) from error
    names = [name for name in SCRIPTS if name in packages]
    if not names:
        raise NoReadings(
            f"{script} imports none of {', '.join(SCRIPTS)}, whose optimizers tell where a step ends; in JAX and Jittor a case "
            f"with --step takes its place"
        )
    return names[0]


def followed(script: Path, arguments: list[str], environment: Environment, steps: int) -> Growth:
    """So many steps of a user's own script. Raises NoReadings."""
    worker = f"framebench.growth.{environment.framework}_script"
    variables = host.MALLOC_ENV | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}  # what the script may import
    return _answer(environment, worker, script.name, [str(script.absolute()), str(steps), *arguments], variables)


def _answer(environment: Environment, worker: str, name: str, arguments: list[str], variables: dict[str, str]) -> Growth:
    """Raises NoReadings."""
    try:
        reply = json.loads(run_module(environment, worker, *arguments, **variables).splitlines()[-1])
        if "fault" in reply:
            raise NoReadings(reply["fault"])
        return Growth.model_validate(reply)
    except SetupError as error:
        raise NoReadings(f"{name} in {environment.name}: {str(error).splitlines()[-1]}") from error
    except (ValidationError, ValueError, IndexError) as error:
        raise NoReadings(f"{name} in {environment.name} ended without an answer: {error}") from error
