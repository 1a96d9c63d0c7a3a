"""Predict the peak of one rank in a worker; `predicted_worker.py` is the worker's side."""

from __future__ import annotations

from typing import Literal

from pydantic import ValidationError, model_validator

from framebench.engine.environments import Environment, SetupError, ask_module
from framebench.ranks.cases import explain_unpredictable_rank
from framebench.records.record import CaseId
from framebench.records.record_parts import RecordPart
from framebench.suite.case import Case

WORKER = "framebench.ranks.predicted_worker"
VARIABLES = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


class Unpredicted(Exception):
    """A case cannot be predicted; the message says why."""


class Prediction(RecordPart):
    """The peak of a steady step of the fullest rank, in bytes. The parts sum to it.

    `framebench predict CASE --ranks N --json` prints it.
    """

    case: CaseId  # with the batch of all ranks together
    ranks: int
    rank: int  # the predicted one, from 0
    instrument: Literal["predicted"] = "predicted"
    peak_bytes: int
    parts: dict[str, int]
    note: str  # what is not in it
    versions: dict[str, str]

    @model_validator(mode="after")
    def check_sum(self) -> Prediction:
        """Raise ValueError unless the parts sum to the peak."""
        total = sum(self.parts.values())
        if total != self.peak_bytes:
            raise ValueError(f"the parts sum to {total} bytes, the peak is {self.peak_bytes}")
        return self


def predict_rank_peak(case: Case, environment: Environment) -> Prediction:
    """Return the predicted peak of the rank that needs most memory, in bytes.

    The peak is computed in a fresh process on one core. Raises Unpredicted.
    """
    obstacle = explain_unpredictable_rank(case)
    if obstacle:
        raise Unpredicted(f"{case.id}: {obstacle}")
    try:
        answer = ask_module(environment, WORKER, case.id, variables=VARIABLES)
        if "error" not in answer:
            return Prediction(case=case.id, ranks=case.ranks, **answer)
        reason = answer["error"]
    except SetupError as error:
        reason = str(error).splitlines()[-1]
    except ValidationError as error:
        reason = f"the worker returned no valid prediction: {error}"
    raise Unpredicted(f"{case.id} in {environment.name}: {reason}")
