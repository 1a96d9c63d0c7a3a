"""With a CPU's choices the simulation counts what `predict` counts in another way, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "as_on_a_cpu.py"
CASES = {  # and how many bytes each weight has on the host, where a card's device memory has none of it: Adam's counter
    "transformer/torch/train/fp32/b4/cpu": 4,
    "transformer/torch/train/checkpoint/b4/cpu": 4,
    "transformer/torch/eval/no_grad/b4/cpu": 0,
    "resnet50/torch/train/fp32/b8/cpu": 0,
    "unet3d/torch/train/accumulate/b4/cpu": 0,
}


@pytest.mark.slow
def test_two_ways_count_the_same(environment: dict[str, Environment]) -> None:
    found = run_inside(environment["torch"], PROGRAM, *CASES)
    assert isinstance(found, dict)
    for case, beside in CASES.items():
        assert found[case]["predicted"] - found[case]["simulated"] == beside * found[case]["weights"], case
