"""What of a case is simulated: its step, a step in its stead, or bounds alone."""

import pytest

from framebench.devices.simulation.scope import find_scope, find_stand_in
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


@pytest.mark.parametrize(
    ("strategy", "scope"),
    [
        ("pool_off", "bounded from both sides"),
        ("compile+pool_off", "bounded from below"),  # the eager step bounds its tensors no more
        ("offload_streamed", "bounded from both sides"),
        ("offload_streamed+pool_off", "bounded from below"),
    ],
)
def test_only_a_step_with_the_same_tensors_is_bounded_by_them(strategy, scope):
    case = Case.from_id(f"transformer/torch/train/{strategy}/b8/full")
    assert find_scope(case, has_convolutions=False, asks_cudnn=False) == scope


@pytest.mark.parametrize(
    ("strategy", "asks_cudnn", "scope"),
    [
        ("pool_off", True, "bounded from both sides"),
        ("pool_off", False, "bounded from below"),
        ("autotune", True, "bounded from below"),
        ("autotune+pool_off", True, "bounded from below"),
        ("malloc_async", True, "bounded from below"),  # the driver's pool has rules of its own
        ("compile+pool_off", True, "bounded from below"),
    ],
)
def test_workspaces_that_cudnn_names_bound_a_step_without_a_pool(strategy, asks_cudnn, scope):
    case = Case.from_id(f"resnet50/torch/train/{strategy}/b8/full")
    assert find_scope(case, has_convolutions=True, asks_cudnn=asks_cudnn) == scope
