"""Case ids, selectors, profiles, and what a wrong name is answered with."""

from __future__ import annotations

import pytest

from framebench import cases
from framebench.cases import Case, UnknownCase


def test_id_is_readable_and_parses_back() -> None:
    case = Case("resnet50", "torch", "train", "checkpoint", 8)
    assert case.id == "resnet50/torch/train/checkpoint/b8/cpu"
    assert cases.parse(case.id) == case


def test_every_id_is_unique_and_parses_back() -> None:
    everything = list(cases.every_case())
    assert len({c.id for c in everything}) == len(everything)
    assert all(cases.parse(c.id) == c for c in everything)


def test_missing_parts_mean_all_and_the_default_size() -> None:
    found = cases.select("unet3d/jax")
    assert {c.size for c in found} == {"cpu"}
    assert {c.scenario for c in found} == {"train", "eval"}
    assert cases.select("unet3d/jax/*/*/*/tiny") != found


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
        cases.select(selector)
    assert all(name in str(caught.value) for name in named)


def test_quick_covers_every_workload_framework_and_strategy() -> None:
    quick = cases.profile("quick")
    cells = {(c.workload, c.framework, c.scenario, c.strategy) for c in quick}
    assert cells == {(c.workload, c.framework, c.scenario, c.strategy) for c in cases.every_case()}
    two = {c.batch for c in quick if (c.workload, c.framework, c.strategy) == ("transformer", "torch", "fp32")}
    assert len(two) == 2


def test_unknown_profile_names_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEBENCH_PROFILE", "enormous")
    with pytest.raises(UnknownCase, match="quick"):
        cases.profile()


def test_every_measurable_small_case_has_golden_values() -> None:
    missing = [
        c.id for c in cases.every_case() if c.size != "full" and c.support.supported and c.golden_key not in c.spec.golden
    ]
    assert missing == []
