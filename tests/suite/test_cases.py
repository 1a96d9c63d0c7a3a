"""Case ids, selectors, profiles, and what a wrong name is answered with."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

import pytest

from framebench.strategies.registry import SCENARIOS, list_strategies
from framebench.suite import profiles, selectors
from framebench.suite.case import Case, UnknownCase


def test_every_id_is_unique_and_parses_back():
    cases = profiles.list_cases()
    ids = {case.id for case in cases}
    assert len(ids) == len(cases)
    for case in cases:
        assert selectors.parse(case.id) == case
    assert "resnet50/torch/train/checkpoint/b8/cpu" in ids


def test_missing_parts_mean_all_and_the_default_size():
    cases = selectors.select("unet3d/jax")
    assert {c.size for c in cases} == {"cpu"}
    assert {c.scenario for c in cases} == {"train", "eval", "finetune"}
    assert selectors.select("unet3d/jax/*/*/*/tiny") != cases


@pytest.mark.parametrize(
    ("selector", "named"),
    [
        ("resnet51", ["workload 'resnet51'", "resnet50", "unet3d", "transformer"]),
        ("resnet50/tensorflow", ["framework 'tensorflow'", "torch", "jax", "jittor"]),
        ("resnet50/torch/test", ["scenario 'test'", "train", "eval"]),
        ("resnet50/torch/train/no_grad", ["strategy 'no_grad'", "fp32", "checkpoint"]),
        ("resnet50/torch/train/fp32/b5", ["batch 'b5'", "b8", "b16"]),
        ("resnet50/torch/train/fp32/b8/huge", ["size 'huge'", "tiny", "cpu", "full"]),
        ("a/b/c/d/e/f/g", ["7 parts"]),
    ],
)
def test_wrong_names_are_answered_by_the_valid_ones(selector, named):
    with pytest.raises(UnknownCase) as caught:
        selectors.select(selector)
    assert all(name in str(caught.value) for name in named)


def test_the_quick_profile_has_the_transformers_training_baseline_at_two_batches():
    assert list_batches("quick", "transformer/torch/train/fp32/") == [4, 8]
    assert list_batches("quick", "transformer/torch/eval/no_grad/") == [4]


def list_batches(profile: str, start: str) -> list[int]:
    """Return the batches of a profile's cases whose ids begin so."""
    cases = profiles.list_profile_cases(profile)
    return [case.batch for case in cases if case.id.startswith(start)]


def test_standard_has_every_strategy_and_the_baselines_at_every_batch():
    strategies = defaultdict(set)
    for case in profiles.list_profile_cases("standard"):
        assert case.size == "cpu"
        strategies[case.scenario].add(case.strategy)
    assert strategies == {name: set(list_strategies(name)) for name in SCENARIOS}
    assert list_batches("standard", "transformer/jax/train/fp32/") == [1, 2, 4, 8, 16]


def test_the_matrix_has_each_strategy_at_three_doubled_batches():
    batches = defaultdict(list)
    for case in profiles.list_profile_cases("matrix"):
        if case.support.supported:
            batches[case.workload, case.framework, case.strategy].append(case.batch)
    assert batches["unet3d", "jax", "fp32"] == [2, 4, 8]
    assert batches["unet3d", "jax", "accumulate"] == [4, 8], "four micro-batches"
    assert batches["transformer", "torch", "amp_bf16+checkpoint"] == [4, 8, 16]


def test_micro_batches_exist_at_every_batch_that_they_divide():
    """Each number of micro-batches of batch norm has other references."""
    batches = [c.batch for c in selectors.select("resnet50/torch/train/accumulate_8")]
    assert batches == [8, 16, 32]


def test_a_selector_selects_within_a_profile():
    candidates = profiles.list_profile_cases("standard")
    selected = selectors.select("transformer/*/train/*", candidates=candidates)
    chosen = ("transformer", "train")
    expected = [case for case in candidates if (case.workload, case.scenario) == chosen]
    assert sorted(selected) == sorted(expected) != []


def test_combinations_may_be_written_in_any_order():
    one = selectors.parse("transformer/torch/train/keep_grads+checkpoint/b4/tiny")
    other = selectors.parse("transformer/torch/train/checkpoint+keep_grads/b4/tiny")
    assert one == other
    assert [p.name for p in one.parts] == ["fp32", "checkpoint", "keep_grads"], (
        "the baseline's precision stays"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("checkpoint+offload", "alternatives (recomputation)"),
        ("accumulate+optimizer_in_backward", "cannot be accumulated"),
        ("chunked_loss+distill", "each computes a loss of its own"),
        ("adafactor+distill", "each change what a step computes"),
        ("fp32+checkpoint", "fp32 is the baseline of train"),
        ("checkpoint+magic", "no strategy 'magic' in train; choose from: fp32"),
    ],
)
def test_invalid_combinations_are_refused_with_the_reason(name, reason):
    with pytest.raises(UnknownCase, match=re.escape(reason)):
        selectors.select(f"transformer/torch/train/{name}/b4/tiny")


@pytest.mark.parametrize(
    ("selector", "works"),
    [
        ("resnet50/torch/train/*/full", "resnet50/torch/train/*/*/full"),
        ("resnet50/torch/full", "resnet50/torch/*/*/*/full"),
        ("resnet50/torch/train/b8", "resnet50/torch/train/*/b8"),
        ("resnet50/train", "resnet50/*/train"),
        ("torch/train", "*/torch/train"),
    ],
)
def test_a_selector_with_a_part_left_out_is_answered_with_the_form_that_works(selector, works):
    with pytest.raises(UnknownCase, match=re.escape(f"did you mean {works!r}?")):
        selectors.select(selector)
    assert selectors.select(works)


@pytest.mark.parametrize("selector", ["resnet50/torch/trian", "resnet50/torch/train/*/*/fulll"])
def test_a_part_that_no_case_has_suggests_no_other_form(selector):
    with pytest.raises(UnknownCase) as error:
        selectors.select(selector)
    assert "did you mean" not in str(error.value)


def test_every_measurable_small_case_has_golden_values():
    checked = 0
    for case in profiles.list_cases():
        if case.support.supported and case.size not in case.workload_spec.without_golden:
            assert case.golden_key in case.workload_spec.golden, case.id
            checked += 1
    assert checked


def test_scan_is_unsupported_for_a_single_layer():
    student = Case("transformer", "jax", "train", "scan+distill", 4, "tiny")
    assert student.workload_spec.identical_layers(student.config) == 1
    assert "one layer" in str(student.support.why)
    assert replace(student, strategy="scan").support.supported


@pytest.mark.parametrize(
    ("case", "same"),
    [
        ("resnet50/torch/train/fp32/b8/cpu", True),
        ("resnet50/torch/train/accumulate/b8/cpu", False),  # batch norm sees a quarter of the batch
        ("unet3d/torch/train/accumulate/b4/cpu", True),  # instance norm sees a sample
        ("transformer/torch/train/accumulate/b4/cpu", True),
        ("transformer/torch/train/width_half/b4/cpu", False),
        ("transformer/torch/train/adafactor/b4/cpu", False),
        ("transformer/torch/train/ddp/b4x2/cpu", True),
        ("resnet50/torch/train/ddp/b8x2/cpu", False),  # each rank normalises over its part
        ("resnet50/jax/train/replicated/b8x2/cpu", True),
    ],
)
def test_strategies_with_the_baselines_mathematics_are_marked(case, same):
    assert selectors.parse(case).same_mathematics is same
