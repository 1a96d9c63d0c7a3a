"""With a CPU's choices the simulation counts what `predict` counts in another way, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "as_on_a_cpu.py"
# how many bytes each weight has on the host, where a GPU's memory has none of it: Adam's counter
CASES = {
    "transformer/torch/train/checkpoint/b4/tiny": 4,
    "unet3d/torch/train/accumulate/b4/tiny": 0,
    "transformer/torch/train/fp32/b4/cpu": 4,
    "transformer/torch/eval/no_grad/b4/cpu": 0,
    "resnet50/torch/train/fp32/b8/cpu": 0,
}
EVERY = tuple(CASES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "cases", [EVERY[:2], pytest.param(EVERY, marks=pytest.mark.all_cases)], ids=["some", "all"]
)
def test_the_simulation_agrees_with_fake_tensors_to_the_byte(
    cases: tuple[str, ...], environment: dict[str, Environment]
) -> None:
    found = run_inside(environment["torch"], PROGRAM, *cases)
    assert isinstance(found, dict)
    for case in cases:
        difference = found[case]["predicted"] - found[case]["simulated"]
        assert difference == CASES[case] * found[case]["weights"], case
