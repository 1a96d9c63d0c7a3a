"""Does memory grow from step to step? The parent's side of `worker.py`."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from framebench.engine import runner
from framebench.engine.environments import Environment, SetupError, run_module
from framebench.engine.runner import Options
from framebench.extensions import worker_module
from framebench.features.growth.record import Growth
from framebench.suite.case import Case


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
    try:
        reply = json.loads(run_module(environment, worker_module("growth", "worker"), *arguments, **variables).splitlines()[-1])
        if "fault" in reply:
            raise NoReadings(reply["fault"])
        return Growth.model_validate(reply)
    except SetupError as error:
        raise NoReadings(f"{case.id} in {environment.name}: {str(error).splitlines()[-1]}") from error
    except (ValidationError, ValueError, IndexError) as error:
        raise NoReadings(f"{case.id} in {environment.name} ended without an answer: {error}") from error
