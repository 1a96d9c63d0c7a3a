"""Predict the peak of one rank in a worker; `predicted_worker.py` is the worker's side."""

from __future__ import annotations

import json

from pydantic import ValidationError

from framebench.engine.environments import Environment, SetupError, run_module
from framebench.ranks.cases import explain_unpredictable_rank
from framebench.ranks.prediction import Prediction
from framebench.suite.case import Case

WORKER = "framebench.ranks.predicted_worker"
VARIABLES = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


class Unpredicted(Exception):
    """A case cannot be predicted; the message says why."""


def predict_rank_peak(case: Case, environment: Environment) -> Prediction:
    """Return the predicted peak of the rank that needs most memory, in bytes.

    It is computed in a fresh process on one core. Raises Unpredicted.
    """
    obstacle = explain_unpredictable_rank(case)
    if obstacle:
        raise Unpredicted(f"{case.id}: {obstacle}")
    try:
        printed = run_module(environment, WORKER, case.id, variables=VARIABLES)
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
            f"{case.id} in {environment.name}: the worker returned no valid prediction: {error}"
        ) from error
