"""Which switches are left out of the step that is simulated in a case's stead."""

import pytest

from framebench.devices.simulation.scope import find_stand_in
from framebench.suite.case import Case


@pytest.mark.parametrize(
    ("strategy", "stand_in"),
    [
        ("autotune", "fp32"),
        ("compile_step", "fp32"),
        ("checkpoint+pool_off", "checkpoint"),
        ("autotune_off", None),  # its name only begins like that of a switch that is left out
    ],
)
def test_only_named_switches_are_left_out_of_the_simulated_step(strategy, stand_in):
    case = Case.from_id(f"transformer/torch/train/{strategy}/b2/tiny")

    found = find_stand_in(case)

    assert (found.strategy if found else None) == stand_in
