"""The peak of one rank without running: the parent's side of `predicted_worker.py`."""

from __future__ import annotations

import json

from pydantic import ValidationError

from framebench.engine.environments import Environment, SetupError, run_module
from framebench.ranks.cases import obstacle
from framebench.ranks.prediction import Prediction
from framebench.suite.case import Case


class Unpredicted(Exception):
    """No prediction of this case; the message says why."""


def predict(case: Case, environment: Environment) -> Prediction:
    """In a fresh process, on one core. Raises Unpredicted."""
    if why := obstacle(case):
        raise Unpredicted(f"{case.id}: {why}")
    try:
        variables = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
        printed = json.loads(
            run_module(environment, "framebench.ranks.predicted_worker", case.id, **variables).splitlines()[-1]
        )
        if "error" in printed:
            raise Unpredicted(f"{case.id} in {environment.name}: {printed['error']}")
        return Prediction.model_validate({"case": case.id, "ranks": case.ranks, **printed})
    except SetupError as error:
        raise Unpredicted(f"{case.id} in {environment.name}: {str(error).splitlines()[-1]}") from error
    except (ValidationError, IndexError, ValueError) as error:
        raise Unpredicted(f"{case.id} in {environment.name}: the prediction does not hold: {error}") from error
