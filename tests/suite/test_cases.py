"""Case ids, selectors, profiles, and what a wrong name is answered with."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from itertools import product

import pytest

from framebench.models import spec
from framebench.strategies.registry import SCENARIOS, STRATEGIES, list_strategies
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import profiles, selectors
from framebench.suite.case import Case, UnknownCase


def test_id_is_readable_and_parses_back() -> None:
    case = Case("resnet50", "torch", "train", "checkpoint", 8)
    assert case.id == "resnet50/torch/train/checkpoint/b8/cpu"
    assert selectors.parse(case.id) == case


def test_every_id_is_unique_and_parses_back() -> None:
    everything = list(profiles.list_cases())
    assert len({c.id for c in everything}) == len(everything)
    assert all(selectors.parse(c.id) == c for c in everything)


def test_missing_parts_mean_all_and_the_default_size() -> None:
    found = selectors.select("unet3d/jax")
    assert {c.size for c in found} == {"cpu"}
    assert {c.scenario for c in found} == {"train", "eval", "finetune"}
    assert selectors.select("unet3d/jax/*/*/*/tiny") != found


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
def test_wrong_names_are_answered_by_the_valid_ones(selector: str, named: list[str]) -> None:
    with pytest.raises(UnknownCase) as caught:
        selectors.select(selector)
    assert all(name in str(caught.value) for name in named)


def test_quick_covers_every_workload_framework_and_marked_strategy() -> None:
    expected = set()
    for workload, framework in product(spec.list_workloads(), FRAMEWORKS):
        for (scenario, strategy), row in STRATEGIES.items():
            if row.quick and scenario in ("train", "eval"):
                expected.add((workload, framework, scenario, strategy))
    quick = profiles.list_profile_cases("quick")
    assert {(c.workload, c.framework, c.scenario, c.strategy) for c in quick} == expected


def test_quick_measures_the_transformer_s_baseline_at_two_batches() -> None:
    quick = profiles.list_profile_cases("quick")
    assert {c.batch for c in quick if c.id.startswith("transformer/torch/train/fp32/")} == {4, 8}


def test_standard_has_every_strategy() -> None:
    standard = profiles.list_profile_cases("standard")
    for scenario in SCENARIOS:
        names = {case.strategy for case in standard if case.scenario == scenario}
        assert names == set(list_strategies(scenario))


def test_standard_has_a_strategy_in_every_workload_and_framework() -> None:
    standard = profiles.list_profile_cases("standard")
    found = set()
    for case in standard:
        if case.strategy == "checkpoint" and case.workload in spec.list_confirmed_workloads():
            found.add((case.workload, case.framework, case.scenario))
    assert len(found) == 18  # 3 workloads x 3 frameworks, in train and in finetune


def test_standard_has_the_baselines_at_every_batch() -> None:
    standard = profiles.list_profile_cases("standard")
    assert {c.batch for c in standard if c.id.startswith("transformer/jax/train/fp32/")} == {
        1,
        2,
        4,
        8,
        16,
    }


def test_profiles_are_of_one_size() -> None:
    assert {c.size for c in profiles.list_profile_cases("standard")} == {"cpu"}
    assert {c.size for c in profiles.list_profile_cases("full")} == {"full"}


def test_the_matrix_has_each_strategy_at_three_batches_a_factor_of_two_apart() -> None:
    batches = defaultdict(list)
    for case in profiles.list_profile_cases("matrix"):
        if case.support.supported:
            batches[case.workload, case.framework, case.scenario, case.strategy].append(case.batch)
    for (workload, _, _, strategy), found in batches.items():
        expected = {"resnet50": [8, 16, 32], "unet3d": [2, 4, 8], "transformer": [4, 8, 16]}[
            workload
        ]
        divided = "accumulate" in strategy  # into four micro-batches
        assert found == [batch for batch in expected if batch % 4 == 0 or not divided]
    for workload in spec.list_confirmed_workloads():
        for framework, strategies in (("torch", 7), ("jax", 7), ("jittor", 6)):
            trained = [key for key in batches if key[:3] == (workload, framework, "train")]
            assert len(trained) == strategies
            assert (workload, framework, "eval", "no_grad") in batches


def test_micro_batches_of_batch_norm_exist_at_every_batch_that_they_divide() -> None:
    """They are other mathematics, with references for each number of micro-batches."""
    batches = [c.batch for c in selectors.select("resnet50/torch/train/accumulate_8")]
    assert batches == [8, 16, 32]


def test_a_selector_within_a_profile() -> None:
    candidates = profiles.list_profile_cases("standard")
    found = selectors.select("transformer/*/train/*", candidates=candidates)
    assert set(found) < set(candidates)
    assert {c.framework for c in found} == set(FRAMEWORKS)


def test_combinations_may_be_written_in_any_order() -> None:
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
        ("accumulate_2+accumulate_8", "alternatives (batching)"),
        ("accumulate+optimizer_in_backward", "cannot be accumulated"),
        ("chunked_loss+distill", "each computes a loss of its own"),
        ("adafactor+distill", "each change what a step computes"),
        ("fp32+checkpoint", "fp32 is the baseline of train"),
        ("checkpoint+magic", "no strategy 'magic' in train; choose from: fp32"),
    ],
)
def test_combinations_without_sense_say_why(name: str, reason: str) -> None:
    with pytest.raises(UnknownCase, match=re.escape(reason)):
        selectors.select(f"transformer/torch/train/{name}/b4/tiny")


@pytest.mark.parametrize(
    ("selector", "way_out"),
    [
        ("jittor", "'jittor' is a framework: write '*/jittor'"),
        ("train", "'train' is a scenario: write '*/*/train'"),
        ("transformer/checkpoint", "'checkpoint' is a strategy: write '*/*/*/checkpoint'"),
    ],
)
def test_a_part_in_another_s_place_is_told_where_it_belongs(selector: str, way_out: str) -> None:
    with pytest.raises(UnknownCase, match=re.escape(way_out)):
        selectors.select(selector)


def test_unknown_profile_names_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEBENCH_PROFILE", "enormous")
    with pytest.raises(UnknownCase, match="quick"):
        profiles.list_profile_cases()


def test_every_measurable_small_case_has_golden_values() -> None:
    missing = [
        c.id
        for c in profiles.list_cases()
        if c.size not in c.spec.without_golden
        and c.support.supported
        and c.golden_key not in c.spec.golden
    ]
    assert missing == []


def test_a_loop_over_one_layer_is_no_loop() -> None:
    student = Case("transformer", "jax", "train", "scan+distill", 4, "tiny")
    assert student.spec.identical_layers(student.config) == 1
    assert "one layer" in str(student.support.why)
    assert replace(student, strategy="scan").support.supported


@pytest.mark.parametrize(
    ("case", "same"),
    [
        ("resnet50/torch/train/fp32/b8/cpu", True),
        ("resnet50/torch/train/checkpoint/b8/cpu", True),
        ("resnet50/torch/train/amp_bf16/b8/cpu", True),
        ("resnet50/torch/train/accumulate/b8/cpu", False),  # batch norm sees a quarter of the batch
        ("resnet50/torch/train/checkpoint+accumulate/b8/cpu", False),
        ("unet3d/torch/train/accumulate/b4/cpu", True),  # instance norm sees a sample
        ("transformer/torch/train/accumulate/b4/cpu", True),
        ("transformer/torch/train/width_half/b4/cpu", False),
        ("transformer/torch/train/adafactor/b4/cpu", False),
        ("transformer/torch/train/ddp/b4x2/cpu", True),
        ("resnet50/torch/train/ddp/b8x2/cpu", False),  # each rank normalises over its part
        ("resnet50/jax/train/replicated/b8x2/cpu", True),
        ("resnet50/torch/eval/no_grad/b8/cpu", True),
    ],
)
def test_what_computes_the_same_as_the_baseline(case: str, same: bool) -> None:
    assert selectors.parse(case).same_mathematics is same
