"""Which strategies apply to a user's model, by what is known of it."""

import pytest

from framebench.models.user_facts import ModelFacts
from framebench.strategies.registry import find_strategy
from framebench.suite.user_strategies import draws_differently, explain_refusal

TORCH = {"framework": "torch"}
# facts, a strategy that they refuse, the reason, and a strategy that still applies
EXAMPLES = [
    (
        {"own_step": True},
        "accumulate",
        "step() of the file makes its own passes",
        "checkpoint",
    ),
    (
        TORCH | {"blocks": []},
        "amp_bf16+checkpoint",
        "no class of which the model has several modules",
        "offload",
    ),
    (
        {"linen": True, "blocks": []},  # it has no modules that could be named
        "checkpoint",
        "a Linen module or a function",
        "accumulate",
    ),
    (
        {"attention": False},
        "checkpoint_linear",
        "no batched matmuls",
        "checkpoint_dots",
    ),
    (
        {"couples": ["layer1.bn1"]},
        "accumulate",
        "layer1.bn1 normalises over the batch",
        "checkpoint",
    ),
    (
        {"uncut": "the inputs are a graph"},
        "accumulate",
        "the inputs are a graph",
        "checkpoint",
    ),
    (
        {"accumulation": "micro-batches do not add up"},
        "accumulate",
        "micro-batches do not add up",
        "checkpoint",
    ),
    (
        {"remembers": "mean", "blocks_change": False},
        "accumulate",
        "changes mean that no gradient trains",
        "checkpoint",
    ),
    (
        {"closure": True, "optimizer": "LBFGS"},
        "optimizer_in_backward",
        "LBFGS computes the loss itself",
        "checkpoint",
    ),
    (
        {"passes": True, "optimizer": "SAM"},
        "amp_fp16",
        "SAM makes a second pass",
        "amp_bf16",
    ),
    (
        {"hooks": True},
        "optimizer_in_backward",
        "hooks of the optimizer get all weights at once",
        "keep_grads",
    ),
    (
        {"inner": ["SGD"], "optimizer": "Lookahead"},
        "optimizer_in_backward",
        "Lookahead steps all weights together",
        "keep_grads",
    ),
    (
        {"closure": True, "optimizer": "LBFGS"},
        "amp_bf16",
        "LBFGS goes by small differences of gradients",
        "checkpoint",
    ),
    (
        {"random": True},
        "channels_last+compile",
        "in a compiled step micro-batches and memory formats draw others",
        "compile",
    ),
    (
        {"sparse": ["embedding"]},
        "foreach",
        "embedding has sparse gradients",
        "checkpoint",
    ),
    (
        {"complex": ["phase"]},
        "fused_optimizer",
        "phase is complex",
        "foreach",
    ),
    (
        {"images": False},
        "channels_last",
        "convolutions over inputs of four axes",
        "checkpoint",
    ),
]


def explain(facts: ModelFacts, strategy: str) -> str | None:
    return explain_refusal(facts, find_strategy("train", strategy))


@pytest.mark.parametrize(("facts", "refused", "reason", "applying"), EXAMPLES)
def test_facts_refuse_a_strategy_and_leave_others_alone(facts, refused, reason, applying):
    assert reason in explain(facts, refused)
    assert explain(facts, applying) is None
    assert explain({}, refused) is None  # what is not known refuses nothing


@pytest.mark.parametrize("strategy", ["adafactor", "chunked_loss", "checkpoint+adafactor"])
def test_strategies_that_only_the_suites_models_have_are_refused(strategy):
    assert explain({}, strategy) == "is for the suite's models alone"


def test_recomputed_blocks_must_not_change_what_the_model_remembers():
    facts: ModelFacts = {"remembers": "blocks.0.mean", "blocks_change": True}
    assert "changes blocks.0.mean" in explain(facts, "checkpoint")


def test_offloading_needs_blocks_where_it_works_by_blocks():
    """JAX keeps each block's input on the host; PyTorch's hooks move all tensors."""
    assert explain({"framework": "torch", "blocks": []}, "offload") is None
    assert "several modules" in explain({"framework": "jax", "blocks": []}, "offload")


@pytest.mark.parametrize(
    ("facts", "strategy", "is_different"),
    [
        ({"random": False}, "channels_last", False),
        ({"random": True}, "channels_last", True),
        ({"random": True, "draws_by_layout": False}, "channels_last", False),
        ({"random": True, "draws_by_layout": False}, "accumulate", True),
        ({"random": True, "draws_by_layout": False}, "checkpoint", False),
    ],
)
def test_another_layout_draws_other_numbers_only_where_images_are_drawn(
    facts, strategy, is_different
):
    plan = find_strategy("train", strategy)
    assert draws_differently(TORCH | facts, plan) == is_different
