"""The answer for the reader's device: measured on it, planned for it, or not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from framebench.claims.answers import UnknownDevice, describe_for_device, find_device
from framebench.claims.entries import Entry, Line
from framebench.claims.show import FEW_LINES, make_answer
from tests.claims.claim_records import compiled

MEASURED = Line(
    id="T1/measured",
    name="transformer/torch b8/full, nvidia-h200",
    measurement="transformer/torch",
    decides=True,
    verdict="confirmed",
    form="change",
    metric="peak",
    null=1.0,
    value=0.6,
    low=0.6,
    high=0.6,
    sign="less",
    device="gpu",
    other_machine="nvidia-h200",
    cases=("transformer/torch/train/fp32/b8/full",),
)
PLANNED = replace(
    MEASURED, id="T1/planned", other_machine="", planned=True, value=0.7, low=0.65, high=0.75
)
ON_CPU = replace(
    MEASURED,
    id="T1/cpu",
    device="cpu",
    other_machine="",
    value=1.0,
    low=1.0,
    high=1.0,
    verdict="no effect",
)


@pytest.fixture
def entry(results: Path) -> Entry:
    """A claim that was measured on a GPU, planned for another, and set aside on a CPU."""
    lines = (
        MEASURED,
        replace(PLANNED, decides=True),
        replace(ON_CPU, decides=False, set_aside=True),
    )
    return replace(compiled(results, 80), lines=lines, transfers_to_gpu=False)


@pytest.mark.parametrize(
    ("device", "answer"),
    [
        ("h200", "Measured on nvidia-h200: confirmed, -40.0 %."),
        ("h100-80gb", "Planned for h100-80gb: confirmed, -30.0 % (-35.0 to -25.0)."),
        ("cpu", "On a CPU: no effect, +0.0 %."),
        ("a100", "On a100: not known. Measured on nvidia-h200: confirmed, -40.0 %. Planned for"),
    ],
)
def test_the_answer_is_that_of_the_readers_device(entry: Entry, device: str, answer: str) -> None:
    assert describe_for_device(entry, device).startswith(answer)


@pytest.mark.parametrize("device", ["t", "t4-16gb", "tpu"])
def test_a_gpu_without_a_name_is_no_device_that_is_asked_about(entry: Entry, device: str) -> None:
    """Its words in an answer, "measured on this GPU", begin like the names of some devices."""
    unnamed = replace(entry, lines=(replace(MEASURED, other_machine=""),))
    answer = describe_for_device(unnamed, device)
    assert answer == f"On {device}: not known. Measured on this GPU: confirmed, -40.0 %."


def test_a_result_that_holds_everywhere_answers_for_every_device(entry: Entry) -> None:
    answer = describe_for_device(replace(entry, transfers_to_gpu=True), "a100")
    assert answer.startswith("On a100: confirmed, -35.0 % (-40.0 to -25.0)")
    assert "holds on every device" in answer


def test_what_was_not_tested_is_not_known_on_any_device(entry: Entry) -> None:
    untested = replace(entry, lines=(), verdict="not testable here", qualifier="needs a GPU")
    assert describe_for_device(untested, "a100") == (
        "On a100: not known: not testable here (needs a GPU)."
    )


def test_devices_are_found_by_their_beginning() -> None:
    assert find_device("A100") == "a100"
    assert find_device("cpu") == "cpu"
    with pytest.raises(UnknownDevice, match=r"no device 'a1000'; devices: cpu, h100-80gb, "):
        find_device("a1000")


def test_an_answer_begins_with_the_verdict_and_has_six_lines_at_most(entry: Entry) -> None:
    many = tuple(replace(MEASURED, id=f"T1/{i}", name=f"arm {i}") for i in range(9))
    answer = make_answer(replace(entry, lines=many, verdict="confirmed"))
    assert answer.title.startswith("Confirmed")
    assert len(answer.rows) == FEW_LINES
    assert "3 more lines" in answer.caption
