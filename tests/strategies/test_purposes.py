"""What each strategy is for."""

import pytest

from framebench.strategies.registry import BASELINES, find_strategy
from framebench.strategies.strategy import find_purpose


@pytest.mark.parametrize(
    ("scenario", "name", "purpose"),
    [
        ("train", "fp32", "baseline"),
        ("train", "checkpoint", "memory"),
        ("train", "compile", "speed"),
        ("train", "no_donate", "control"),
        ("train", "adafactor", "other mathematics"),
        ("train", "width_half", "claim"),
        ("train", "foreach+compile", "speed"),
        ("train", "checkpoint+compile", "memory"),
        ("train", "checkpoint+keep_grads", "control"),
        ("train", "checkpoint+depth_4", "claim"),
        ("eval", "inference_mode", "memory"),
    ],
)
def test_a_strategy_has_one_purpose(scenario, name, purpose):
    assert find_purpose(find_strategy(scenario, name), BASELINES[scenario]) == purpose
