"""The record of a prediction: what does not hold together is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.devices.fake_predictions import PARTS, planned


def test_a_plan_is_its_parts() -> None:
    with pytest.raises(ValidationError, match="the parts give 12582912 bytes, the peak is 1"):
        planned(peak_bytes=1)
    with pytest.raises(ValidationError, match="a plan has the parts aliased, arguments"):
        planned(parts=PARTS | {"more": 1})


def test_what_was_not_planned_has_a_reason_and_no_peak() -> None:
    with pytest.raises(ValidationError, match="not planned, and no reason"):
        planned(outcome="not planned", peak_bytes=None, parts={})
    with pytest.raises(ValidationError, match="refused, with the peak"):
        planned(outcome="refused", reason="too large")


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("transformer/torch/train/fp32/b8/full", "torch"),
        ("transformer/torch/train/fsdp/b8x8/full", "torch, ranks"),
        ("transformer/jax/train/fsdp/b8x8/full", "jax"),
        ("unet3d/torch/train/fp32/b4/full", "torch, convolutions without workspaces"),
    ],
)
def test_the_error_is_that_of_the_kind_of_prediction(case: str, kind: str) -> None:
    prediction = planned().model_copy(update={"case": case, "framework": case.split("/")[1]})
    assert prediction.kind == kind
