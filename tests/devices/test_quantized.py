"""Weights and states of few bits on a simulated GPU, against arithmetic on their shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "quantized_steps.py"
NUMBERS = 4096 * 4096
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def simulated(environment: dict[str, Environment]) -> dict[str, Any]:
    """What the library says of the steps of `quantized_steps.py`, by their name."""
    found = run_inside(environment["torch"], PROGRAM)
    assert isinstance(found, dict)
    return found


def test_a_weight_of_4_bits_takes_half_a_byte_a_number(simulated: dict[str, Any]) -> None:
    """And the matrices of low rank, in bfloat16."""
    low_rank = 2 * 2 * 16 * 4096
    assert simulated["qlora"]["kinds"]["weights"] == NUMBERS // 2 + low_rank


def test_double_quantization_saves_three_bytes_of_each_block_of_64(
    simulated: dict[str, Any],
) -> None:
    saved = simulated["single"]["allocated"] - simulated["qlora"]["allocated"]
    assert saved == pytest.approx(3 * NUMBERS / 64, rel=0.05)


def test_a_weight_is_unpacked_for_one_matmul(simulated: dict[str, Any]) -> None:
    kinds = simulated["forward"]["kinds"]
    assert kinds["weights"] == NUMBERS // 2
    unpacked = kinds["temporaries"] + kinds["activations"]
    assert unpacked == pytest.approx(2 * NUMBERS, rel=0.02), "with the result"


def test_states_of_8_bits_take_a_byte_a_number(simulated: dict[str, Any]) -> None:
    plain, narrow = simulated["adam"]["kinds"], simulated["adam8bit"]["kinds"]
    assert plain["optimizer states"] == pytest.approx(8 * NUMBERS, rel=0.01)
    assert narrow["optimizer states"] == pytest.approx(2 * NUMBERS, rel=0.05)


def test_paged_states_are_not_in_pytorchs_allocator(simulated: dict[str, Any]) -> None:
    assert simulated["paged"]["kinds"]["optimizer states"] < NUMBERS / 10
