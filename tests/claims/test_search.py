"""The search finds the row that people mean, whatever words they type."""

import pytest

from framebench.claims.registry import REGISTRY, UnknownClaim
from framebench.claims.search import find_subjects
from tests.processes import framebench

ENGLISH = [
    ("fp16", "B1 memory"),
    ("AMP saves 40%", "B1 memory"),
    ("bf16", "B1 memory"),
    ("DDP", "B11"),
    ("OOM", "C14"),
    ("memory leak", "C8 leak"),
    ("fragmentation", "C3"),
    ("knowledge distillation", "B6"),
    ("DeepSpeed", "B21 sharding"),
    ("float16", "C10"),
    ("fits on an RTX 3090?", "B29"),
    ("batch size fused_op error", "A3"),
    ("gradient checkpointing makes training 30 % slower", "B2 time"),
    ("empty_cache", "B12"),
]
CHINESE = [
    ("梯度检查点", "A8"),
    ("梯度累积", "B9 memory"),
    ("半精度", "C10"),
    ("显存碎片化", "A5"),
    ("知识蒸馏", "B6"),
    ("剪枝", "B5"),
    ("数据并行", "B11"),
    ("显存泄漏", "C8 leak"),
    ("显存不足怎么办", "C14"),
    ("自定义算子", "C8 training"),
    ("计图比PyTorch省显存吗", "B7 memory"),
]
BEST = [
    ("gradient checkpointing halves memory in JAX", "B2 memory"),
    ("gradient checkpointing of ResNet in PyTorch", "B2 memory"),
    ("pruning", "B5"),
    ("gradient accumulation", "B9 memory"),
    ("gradient checkpointing", "B2 memory"),
    ("activation checkpointing", "B2 memory"),
    ("amp", "B1 memory"),
    ("40%", "B1 memory"),
    ("checkpointing costs 20 % of speed", "B2 time"),
    ("is dropout wrong under a memory budget?", "R16"),
    ("混合精度", "B1 memory"),
    ("微调", "C11"),
    # a technique says more than the model that it is used on
    ("checkpointing resnet", "B2 memory"),
    ("resnet50 checkpointing", "B2 memory"),
    ("accumulation transformer", "B9 memory"),
    ("pruning ResNet-50", "B5"),
    ("mixed precision resnet", "B1 memory"),
    # words that stand together in a claim count more than the same words apart
    ("CUDA out of memory", "C14"),
    ("out of memory", "C14"),
]


@pytest.mark.parametrize(("typed", "row"), [*ENGLISH, *CHINESE])
def test_a_query_finds_the_row_that_is_meant(typed, row):
    assert row in [claim.name for claim in REGISTRY.select([typed])]


@pytest.mark.parametrize(("typed", "row"), BEST)
def test_the_best_match_comes_first(typed, row):
    assert REGISTRY.select([typed])[0].name == row


@pytest.mark.parametrize(
    "typed",
    [
        pytest.param("A100", id="a GPU, not a claim's id"),
        pytest.param("量子", id="quantum"),
    ],
)
def test_words_that_no_claim_has_find_nothing(typed):
    with pytest.raises(UnknownClaim, match="none with these words; claims: A1 to "):
        REGISTRY.select([typed])


def test_adam_finds_the_claim_about_adam_alone():
    """Other claims are about `optimized_attention`, and Adam is a word for optimizers."""
    assert [claim.name for claim in REGISTRY.select(["Adam"])] == ["R15"]


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("optimizer states", "framebench explain CASE"),
        ("Adam", "framebench explain CASE"),
        ("the memory of the optimizer", "framebench explain CASE"),
        ("优化器状态", "framebench explain CASE"),
        ("flash attention", "sdpa_flash"),
        ("FlashAttention 2", "sdpa_flash"),
        ("sdpa saves memory", "sdpa_flash"),
        ("is jax faster than pytorch", "framebench report"),
        ("PyTorch vs JAX: speed of ResNet-50 training on a GPU?", "framebench report"),
        ("which framework is fastest", "framebench report"),
    ],
)
def test_a_query_that_another_command_answers_names_it(typed, command):
    (sentence,) = REGISTRY.list_other_commands([typed])
    assert command in sentence


@pytest.mark.parametrize(
    "typed", ["gradient accumulation", "is amp faster in pytorch", "B4 parameters"]
)
def test_a_query_that_claims_answer_names_no_other_command(typed):
    assert REGISTRY.list_other_commands([typed]) == []


def test_words_that_no_claim_has_are_named():
    assert REGISTRY.list_unknown_words(["quantum checkpointing"]) == ["quantum"]
    assert not REGISTRY.list_unknown_words(["fp16 training", "B1"])


def test_words_are_one_query_with_quotes_or_without():
    assert REGISTRY.select(["mixed", "precision"]) == REGISTRY.select(["mixed precision"])


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        (["B1 memory"], ["B1 memory"]),
        (["b1-memory"], ["B1 memory"]),
        (["b1", "memory", "A1"], ["A1", "B1 memory"]),
        (["B1"], ["B1 memory", "B1 result"]),
    ],
)
def test_ids_and_parts_are_found_as_they_are_typed(typed, names):
    assert [claim.name for claim in REGISTRY.select(typed)] == names


@pytest.mark.parametrize(
    ("typed", "subjects"),
    [
        ("gradient checkpointing of ResNet halves memory", ["resnet50"]),
        ("amp on a 3D U-Net", ["unet3d"]),
        ("UNet and GPT-2", ["unet3d", "transformer"]),
        ("checkpointing in JAX", ["jax"]),
        ("pruning", []),
    ],
)
def test_models_and_frameworks_that_a_query_names_are_found(typed, subjects):
    assert find_subjects(typed) == subjects
    assert not set(REGISTRY.list_unknown_words([typed])) & {"unet", "resnet", "halves"}


def test_an_answer_on_a_program_says_nothing_of_the_framework_that_was_named():
    """A report is tried by a program, which is no case of a framework."""
    done = framebench("claims", "jax.checkpoint around the whole network", code=0)
    assert "R1: " in done.stdout
    assert "no number of this claim" not in done.stdout
