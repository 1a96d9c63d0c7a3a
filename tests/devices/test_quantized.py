"""Weights and states of few bits on a simulated GPU, against arithmetic on their shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_inside

Steps = dict[str, Any]  # answers by the name of a step
PROGRAM = Path(__file__).parent / "programs" / "quantized_steps.py"
NUMBERS = 4096 * 4096
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def simulated(environment) -> Steps:
    """Return what the library says of the steps of `quantized_steps.py`, by their name."""
    return run_inside(environment["torch"], PROGRAM)


def test_a_weight_of_4_bits_takes_half_a_byte_a_number(simulated):
    """The matrices of low rank are in bfloat16. Double quantization saves three bytes for each
    block of 64 numbers.
    """
    low_rank = 2 * 2 * 16 * 4096
    assert simulated["qlora"]["kinds"]["weights"] == NUMBERS // 2 + low_rank
    saved = simulated["single"]["allocated"] - simulated["qlora"]["allocated"]
    assert saved == pytest.approx(3 * NUMBERS / 64, rel=0.05)


def test_states_of_quantization_are_named_and_are_no_inputs(simulated):
    """Each block of 64 numbers has a scale, of four bytes or, quantized itself, of about one."""
    for name, bytes_per_scale in (("single", 4), ("qlora", 1)):
        kinds = simulated[name]["kinds"]
        expected = bytes_per_scale * NUMBERS / 64
        assert kinds["quantization states"] == pytest.approx(expected, rel=0.05)
    assert simulated["forward"]["kinds"]["inputs"] == 2 * 16 * 4096, "the batch alone"
    assert simulated["adam8bit"]["kinds"]["quantization states"] == 0


def test_the_error_of_weights_of_4_bits_is_not_that_of_16_bits(simulated):
    """The measured peaks of frozen weights are of 16 bits."""
    for name in ("qlora", "single", "forward"):
        assert simulated[name]["kind"] == "torch, weights of 4 bits"
        assert not simulated[name]["is_judged"]
    assert simulated["adam8bit"]["kind"] == "torch"


def test_a_weight_is_unpacked_for_one_matmul(simulated):
    kinds = simulated["forward"]["kinds"]
    unpacked = kinds["temporaries"] + kinds["activations"]
    assert unpacked == pytest.approx(2 * NUMBERS, rel=0.02), "with the result"


def test_states_of_8_bits_take_a_byte_a_number(simulated):
    """Paged ones are not in PyTorch's allocator."""
    states = simulated["adam8bit"]["kinds"]["optimizer states"]
    assert states == pytest.approx(2 * NUMBERS, rel=0.05)
    assert simulated["paged"]["kinds"]["optimizer states"] < NUMBERS / 10
