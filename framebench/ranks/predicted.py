"""Predict the peak of one rank in a process of its own: the parent's side of
`predicted_worker.py`.
"""

from __future__ import annotations

import json

from pydantic import ValidationError

from framebench.engine.environments import Environment, SetupError, run_module
from framebench.ranks.cases import find_obstacle
from framebench.ranks.prediction import Prediction
from framebench.suite.case import Case

WORKER = "framebench.ranks.predicted_worker"
VARIABLES = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


class Unpredicted(Exception):
    """A case cannot be predicted; the message says why."""


def predict(case: Case, environment: Environment) -> Prediction:
    """Predict the peak of the fullest rank, in a fresh process on one core. Raises Unpredicted."""
    obstacle = find_obstacle(case)
    if obstacle:
        raise Unpredicted(f"{case.id}: {obstacle}")
    try:
        printed = run_module(environment, WORKER, case.id, **VARIABLES)
        answer = json.loads(printed.splitlines()[-1])
        if "error" in answer:
            raise Unpredicted(f"{case.id} in {environment.name}: {answer['error']}")
        return Prediction.model_validate({"case": case.id, "ranks": case.ranks, **answer})
    except SetupError as error:
        raise Unpredicted(
            f"{case.id} in {environment.name}: {str(error).splitlines()[-1]}"
        ) from error
    except (ValidationError, IndexError, ValueError) as error:
        raise Unpredicted(
            f"{case.id} in {environment.name}: the prediction does not hold: {error}"
        ) from error
