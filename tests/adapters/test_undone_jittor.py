"""Proofs in Jittor say no where the strategy is undone, and yes where nobody touches it."""

from __future__ import annotations

import pytest

from framebench.engine.environments import Environment
from tests.adapters.undone import Sabotage, judge_undone, judge_untouched

pytestmark = pytest.mark.slow

UNTOUCHED = (
    "transformer/jittor/train/fp32/b4/tiny",
    "resnet50/jittor/eval/no_grad/b4/tiny",
    "resnet50/jittor/eval/batch_stats/b4/tiny",
)

COMPUTE_ALL_LOGITS = """
import jittor as jt
def loss(x, y):
    hidden, embedding = adapter.model(x)
    return adapter.model_module.loss(jt.nn.linear(hidden, embedding), y)
adapter.recipe.loss = loss
"""
KEEP_CHUNKS = """
from framebench.adapters.jittor import steps
steps.run_checkpointed = lambda part, hidden: part(hidden)
"""
SABOTAGES = [
    Sabotage(
        "no_grad, in training mode",
        "resnet50/jittor/eval/no_grad/b4/tiny",
        "for module in adapter.model.modules(): module.is_train = True",
    ),
    Sabotage(
        "batch_stats, of all norms but one",
        "resnet50/jittor/eval/batch_stats/b4/tiny",
        "adapter.model.bn1.is_train = False",
    ),
    Sabotage(
        "chunked_loss, of all logits at once",
        "transformer/jittor/train/chunked_loss/b4/tiny",
        COMPUTE_ALL_LOGITS,
    ),
    # the last one: it is for the whole process
    Sabotage(
        "chunked_loss, its chunks kept",
        "transformer/jittor/train/chunked_loss/b4/tiny",
        KEEP_CHUNKS,
    ),
]


def test_undone_strategies_are_not_proven(environment: dict[str, Environment]) -> None:
    proven, _ = judge_undone(environment["jittor"], SABOTAGES)
    assert proven == {}


@pytest.mark.all_cases
def test_untouched_strategies_are_proven(environment: dict[str, Environment]) -> None:
    _, refuted = judge_untouched(environment["jittor"], UNTOUCHED)
    assert refuted == {}
