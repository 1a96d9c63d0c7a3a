"""Which strategies apply to a user's model, by what is known of it."""

import pytest

from framebench.models.user_facts import ModelFacts
from framebench.strategies.registry import find_strategy
from framebench.suite import user_strategies as rules
from framebench.suite.user_strategies import explain_refusal

TORCH = {"framework": "torch"}
# rule -> facts, a strategy that they refuse, the reason, and a strategy that still applies
EXAMPLES = {
    rules.is_done_by_own_step: (
        {"own_step": True},
        "accumulate",
        "step() of the file makes its own passes",
        "checkpoint",
    ),
    rules.lacks_blocks: (
        TORCH | {"blocks": []},
        "amp_bf16+checkpoint",
        "no class of which the model has several modules",
        "offload",
    ),
    rules.would_change_linen: (
        {"linen": True, "blocks": []},  # it has no modules that could be named
        "checkpoint",
        "a Linen module or a function",
        "accumulate",
    ),
    rules.lacks_attention: (
        {"attention": False},
        "checkpoint_linear",
        "no products of matrices in batches",
        "checkpoint_dots",
    ),
    rules.normalises_over_batch: (
        {"couples": ["layer1.bn1"]},
        "accumulate",
        "layer1.bn1 normalises over the batch",
        "checkpoint",
    ),
    rules.cannot_cut_batch: (
        {"uncut": "the inputs are a graph"},
        "accumulate",
        "the inputs are a graph",
        "checkpoint",
    ),
    rules.does_not_add_up: (
        {"accumulation": "micro-batches do not add up"},
        "accumulate",
        "micro-batches do not add up",
        "checkpoint",
    ),
    rules.repeats_what_is_remembered: (
        {"remembers": "mean", "blocks_change": False},
        "accumulate",
        "changes mean that no gradient trains",
        "checkpoint",
    ),
    rules.takes_loss_from_optimizer: (
        {"closure": True, "optimizer": "LBFGS"},
        "optimizer_in_backward",
        "LBFGS computes the loss itself",
        "checkpoint",
    ),
    rules.takes_second_pass_from_optimizer: (
        {"passes": True, "optimizer": "SAM"},
        "amp_fp16",
        "SAM makes a second pass",
        "amp_bf16",
    ),
    rules.divides_hooked_optimizer: (
        {"hooks": True},
        "optimizer_in_backward",
        "hooks of the optimizer get all weights at once",
        "keep_grads",
    ),
    rules.divides_wrapped_optimizer: (
        {"inner": ["SGD"], "optimizer": "Lookahead"},
        "optimizer_in_backward",
        "Lookahead steps all weights together",
        "keep_grads",
    ),
    rules.rounds_differences_away: (
        {"closure": True, "optimizer": "LBFGS"},
        "amp_bf16",
        "LBFGS goes by small differences of gradients",
        "checkpoint",
    ),
    rules.draws_differently_compiled: (
        {"random": True},
        "channels_last+compile",
        "in a compiled step micro-batches and memory formats draw others",
        "compile",
    ),
    rules.lists_sparse_gradients: (
        {"sparse": ["embedding"]},
        "foreach",
        "embedding has sparse gradients",
        "checkpoint",
    ),
    rules.fuses_complex_weights: (
        {"complex": ["phase"]},
        "fused_optimizer",
        "phase is complex",
        "foreach",
    ),
    rules.lacks_images: (
        {"images": False},
        "channels_last",
        "convolutions over inputs of four axes",
        "checkpoint",
    ),
}


def explain(facts: ModelFacts, strategy: str) -> str | None:
    return explain_refusal(facts, find_strategy("train", strategy))


by_rule = pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: rule.__name__)


@by_rule
def test_a_rule_gives_its_reason(rule):
    facts, refused, reason, _ = EXAMPLES[rule]
    assert rule(facts, find_strategy("train", refused))
    assert reason in explain(facts, refused)


@by_rule
def test_a_rule_leaves_other_strategies_alone(rule):
    facts, _, _, applying = EXAMPLES[rule]
    assert explain(facts, applying) is None


@by_rule
def test_a_rule_needs_its_facts(rule):
    _, refused, _, _ = EXAMPLES[rule]
    assert explain({}, refused) is None


def test_every_rule_has_an_example():
    assert {refusal.holds for refusal in rules.REFUSALS} == {rules.is_for_suite, *EXAMPLES}


@pytest.mark.parametrize("strategy", ["adafactor", "chunked_loss", "checkpoint+adafactor"])
def test_strategies_that_only_the_suites_models_have_are_refused(strategy):
    assert explain({}, strategy) == "is not for models of one's own"


def test_recomputed_blocks_must_not_change_what_the_model_remembers():
    facts: ModelFacts = {"remembers": "blocks.0.mean", "blocks_change": True}
    assert "changes blocks.0.mean" in explain(facts, "checkpoint")


def test_offloading_needs_blocks_where_it_works_by_blocks():
    """JAX keeps each block's input on the host; PyTorch's hooks move all tensors."""
    assert explain({"framework": "torch", "blocks": []}, "offload") is None
    assert "several modules" in explain({"framework": "jax", "blocks": []}, "offload")


@pytest.mark.parametrize(
    ("framework", "strategy", "is_different"),
    [
        ("torch", "checkpoint", False),
        ("torch", "accumulate", True),
        ("torch", "amp_bf16", True),
        ("torch", "channels_last", True),
        ("jittor", "checkpoint", True),
    ],
)
def test_some_strategies_draw_other_numbers(framework, strategy, is_different):
    facts: ModelFacts = {"random": True, "framework": framework}
    plan = find_strategy("train", strategy)
    assert rules.draws_differently(facts, plan) == is_different
    assert not rules.draws_differently(facts | {"random": False}, plan)


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
    assert rules.draws_differently(TORCH | facts, plan) == is_different
