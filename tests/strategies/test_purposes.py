"""What each strategy is for: every name of the lists exists, and the kinds exclude each other."""

from __future__ import annotations

import pytest

from framebench.strategies import purposes
from framebench.strategies.registry import SCENARIOS, STRATEGIES, find_strategy


def test_every_name_is_a_strategy() -> None:
    names = {name for _, name in STRATEGIES}
    assert names >= purposes.SPEED | purposes.CONTROL
    assert not purposes.SPEED & purposes.CONTROL


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("fp32", "baseline"),
        ("checkpoint", "memory"),
        ("compile", "speed"),
        ("no_donate", "control"),
        ("adafactor", "other mathematics"),
        ("width_half", "claim"),
        ("foreach+compile", "speed"),
        ("checkpoint+compile", "memory"),
        ("checkpoint+keep_grads", "control"),
        ("checkpoint+depth_4", "claim"),
    ],
)
def test_a_strategy_has_one_kind(name: str, kind: str) -> None:
    assert purposes.find_purpose(find_strategy("train", name), SCENARIOS["train"].baseline) == kind


def test_inference_mode_saves_memory_over_its_baseline_no_grad() -> None:
    assert purposes.find_purpose(find_strategy("eval", "no_grad"), "no_grad") == "baseline"
    assert purposes.find_purpose(find_strategy("eval", "inference_mode"), "no_grad") == "memory"
    assert purposes.find_purpose(find_strategy("eval", "grad"), "no_grad") == "control"
