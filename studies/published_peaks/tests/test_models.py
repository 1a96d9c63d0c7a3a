"""The models and loops of measured rows, in an environment of their own; and two rows,
predicted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.engine import environments
from framebench.engine.environments import Environment
from studies.published_peaks import judged, rows
from studies.published_peaks.__main__ import PACKAGE
from studies.published_peaks.programs import Program, program
from studies.published_peaks.rows import Row
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "measured_models.py"
PUBLISHED = {  # by torchvision's and Hugging Face's pages; heads of ten classes as xMem's rows say
    "resnet101": 44549160,
    "resnet152": 60192808,
    "vgg16": 138357544,
    "vgg19": 143667240,
    "mobilenet_v2": 3504872,
    "mobilenet_v3_small": 1528106,
    "mobilenet_v3_large": 4214842,
    "mnasnet": 3115122,
    "convnext_tiny": 28589128,
    "convnext_base": 88591464,
    "regnet_x_400mf": 5495976,
    "regnet_y_400mf": 4344144,
    "gpt2": 124439808,
    "distilgpt2": 81912576,
    "cerebras-gpt-111m": 111050496,
    "gpt-neo-125m": 125198592,
    "opt-125m": 125239296,
    "opt-350m": 331196416,
    "t5-small": 60506624,
    "phi-1.5": 1418270720 + 1572864,
    "Llama 2 7B": 6738415616 + 4194304,
    "Llama 2 13B": 13015864320 + 6553600,
    "StableLM Alpha 3B": 3637321728 + 2097152,
}
TWO = ("xmem-mobenetv3small-258", "xmem-distilbert-distilgpt2-10")

# all in an environment of their own, which takes minutes to build
pytestmark = [pytest.mark.slow, pytest.mark.all_cases]


@pytest.fixture(scope="module")
def judging() -> Environment:
    return environments.ensure("torch", package=PACKAGE)


@pytest.fixture(scope="module")
def found(judging: Environment) -> dict[str, Any]:
    answer = run_inside(judging, PROGRAM)
    assert isinstance(answer, dict)
    return answer


def test_models_have_the_published_numbers_of_parameters(found: dict[str, Any]) -> None:
    assert found["parameters"] == PUBLISHED


def test_gradients_are_alive_between_steps_unless_dropped_at_the_end(found: dict[str, Any]) -> None:
    between = found["between"]
    assert between["start"] == between["before backward"]
    gradients = 4 * PUBLISHED["mobilenet_v3_small"]
    # each in blocks of 512 bytes
    assert gradients <= between["start"] - between["end"] < 1.1 * gradients


def test_names_keep_logits_and_keys_and_values_of_the_last_step(found: dict[str, Any]) -> None:
    tokens = 2 * 16
    logits, keys_and_values = 4 * tokens * 50257, 4 * tokens * 6 * 3 * 768
    kept = found["kept"]["distilgpt2"]
    assert kept["between_steps"] - kept["weights"] > logits + keys_and_values


def test_an_embedding_that_three_modules_share_is_one_on_the_card(found: dict[str, Any]) -> None:
    weights = 4 * PUBLISHED["t5-small"]
    assert weights <= found["kept"]["t5-small"]["weights"] < 1.001 * weights


@pytest.fixture(scope="module")
def two(judging: Environment) -> list[tuple[Row, judged.Judged]]:
    chosen: list[tuple[Row, Program]] = [
        (row, program(row)) for row in rows.read() if row.key.startswith(TWO)
    ]
    assert len(chosen) == 2
    return list(zip([row for row, _ in chosen], judged.predict(chosen, judging)))


def test_two_rows_come_out_as_published(two: list[tuple[Row, judged.Judged]]) -> None:
    for row, answer in two:
        kept = judged.read(rows.DATA, row)
        assert kept
        assert (answer.failed, kept.failed) == (None, None)
        assert answer.reserved_bytes == kept.reserved_bytes


def test_two_rows_are_within_the_error_that_their_families_state(
    two: list[tuple[Row, judged.Judged]],
) -> None:
    beside = rows.beside_the_pool(rows.read())
    for row, answer in two:
        predicted = answer.predicted_bytes(beside[row.card])
        assert predicted
        assert predicted == pytest.approx(row.bytes, rel=STATED[row.model])


STATED = {"distilbert/distilgpt2": 0.01, "MobeNetV3Small": 0.08}
