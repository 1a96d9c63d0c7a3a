"""What a worker prints as its result is what the parent reads."""

import json
import math

import pytest
from pydantic import ValidationError

from framebench.records.record import read_result
from framebench.suite.result import (
    MemoryResult,
    Origin,
    RankMemory,
    RepeatedVerification,
    Result,
    StrategyEffect,
    TensorComparison,
    TimeResult,
    Verification,
    to_json,
)

GRADIENT = TensorComparison(
    count=2, failed=0, worst="fc.bias", by="norm", error=1e-6, tolerance=1e-3
)
MEMORY = MemoryResult(peaks={"host.rss": 20}, peak_samples=[{"host.rss": 20}], live_bytes=10)
RESULT = Result(
    origin=Origin(
        versions={"torch": "2.13.0"}, device="cpu", python="3.11.2", core=1, import_s=1, build_s=0.5
    ),
    verification=Verification(
        passed=True,
        observed={"loss_0": 1.5},
        tensors={"gradient": GRADIENT},
        again=RepeatedVerification(passed=True),
    ),
    times=TimeResult(first_step_s=0.1, shares={"wait": 0.5}, timed_steps=8, timed_s=2.0),
    memory=MEMORY,
    effect=StrategyEffect(proven=True, evidence={"blocks": 2}),
    ranks=[RankMemory(MEMORY, held={"parameters": 5})],
    work_s=3.0,
)


def test_a_result_survives_the_pipe():
    line = json.dumps(to_json(RESULT))
    assert read_result(json.loads(line)) == RESULT


def test_a_number_that_is_not_finite_crosses_the_pipe_as_none():
    result = Result(
        verification=Verification(
            passed=False, relative_error={"loss_0": math.nan}, margin=math.inf
        )
    )
    line = json.dumps(to_json(result), allow_nan=False)
    assert read_result(json.loads(line)).verification == Verification(
        passed=False, relative_error={"loss_0": None}
    )


@pytest.mark.parametrize(
    "answer",
    [{"memory": {"peaks": {"host.rss": "many"}}}, {"times": {"first_step": 1.0}}, {"peaks": {}}],
)
def test_an_answer_that_is_not_a_result_is_refused(answer):
    with pytest.raises(ValidationError):
        read_result(answer)
