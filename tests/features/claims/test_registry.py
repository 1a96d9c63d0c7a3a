"""The registry: every claim is there once, and whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.analysis.lower_bound import lower_bound
from framebench.analysis.results import Results
from framebench.features.claims.arms import SOME
from framebench.features.claims.claim import Registry, UnknownClaim
from framebench.features.claims.ledger import applies, as_json, ledger
from framebench.features.claims.measures import OfProbe, Predicted, Value
from framebench.features.claims.registry import REGISTRY
from framebench.features.claims.samples import TIME
from framebench.features.claims.show import table
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from framebench.suite.strategy import AlwaysOn

IDS = [f"{source}{n}" for source, last in (("A", 8), ("B", 21), ("C", 15), ("D", 5), ("R", 15)) for n in range(1, last + 1)]
APART = {"B1": "memory result", "B11": "peak states", "B21": "states memory speed", "D5": "speed collector"} | dict.fromkeys(
    ("B2", "B12", "B18", "B19", "D3"), "memory speed"
)


def test_every_claim_is_there_once() -> None:
    assert list(REGISTRY.ids) == IDS


def test_memory_and_speed_are_judged_apart() -> None:
    parts = {i: " ".join(claim.part for claim in REGISTRY.claims if claim.id == i) for i in IDS}
    assert {i: part for i, part in parts.items() if part} == APART
    for claim in REGISTRY.claims:
        timed = {getattr(arm.measure, "quantity", None) is TIME for arm in claim.arms}
        assert len(timed) < 2, f"{claim.name} is decided by times and by others"


def test_a_claim_cannot_be_there_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        Registry((REGISTRY.claims[0], REGISTRY.claims[0]))


def test_unknown_claims_are_answered_by_the_known_ones() -> None:
    with pytest.raises(UnknownClaim, match=r"Z1.*A1, A2"):
        REGISTRY.chosen(["A1", "z1"])
    assert [c.id for c in REGISTRY.chosen(["c10"])] == ["C10"]


@pytest.mark.parametrize("claim", REGISTRY.claims, ids=lambda c: c.name)
def test_claims_are_whole(claim: Any) -> None:
    """Arms have names of their own and valid cases that can run; a claim without arms says why."""
    arms = [f"{arm.name} {arm.measure.where('cpu')}" for arm in claim.every_arm]
    assert len(set(arms)) == len(arms)
    assert bool(claim.arms) != bool(claim.reason or claim.absent)
    for arm in claim.every_arm:
        for size in ("cpu", "tiny", "full"):
            for case in arm.measure.cases(size):
                assert parse(case.id) == case
                too_small = f"{case.workload}/{case.framework}/{case.size}" in case.plan.exceptions
                assert case.support.supported or too_small, case.id
    assert all(applies(arm, "cpu") for arm in claim.arms)
    assert all(arm.measure.where("cpu") for arm in claim.every_arm), "batch and size"


@pytest.mark.parametrize("claim", REGISTRY.claims, ids=lambda c: c.name)
def test_no_arm_is_compared_with_itself(claim: Any) -> None:
    """Two cases of one arm differ, also in what their strategy's cell does; a number of one case is no comparison."""
    for arm in claim.every_arm:
        cases = arm.measure.cases("cpu")
        assert len(set(cases)) == len(cases)
        assert not any(isinstance(case.support, AlwaysOn) and case.strategy != case.stage.baseline for case in cases)
        assert len(cases) > 1 or isinstance(arm.measure, Value | OfProbe | Predicted), arm.name
        if isinstance(arm.measure, Value):
            assert arm.target.minimum or arm.target.value or arm.target == SOME, "a share or a count may come out either way"


def test_claims_about_peaks_say_what_is_predicted_at_full_size(results: Path) -> None:
    """The ratio of the totals that `framebench predict` prints; where it knows no difference, nothing is said."""
    (memory, result) = ledger(Results(results), "m", ids=["B1"])
    least = {s: lower_bound(Case.of(f"resnet50/torch/train/{s}/b64/full")).total for s in ("fp32", "amp_bf16")}
    ratio = least["amp_bf16"] / least["fp32"]
    assert memory.full_size == (ratio, ratio)
    assert 0.45 < ratio < 0.6, "activations are most of it there, and halved"
    assert table([memory]).rows[0][4] == f"-; at full size, predicted: {100 * (ratio - 1):+.1f} %"
    assert as_json(memory)["full_size"] == (ratio, ratio)
    assert result.full_size is None, "no peaks"
    (allocator,) = ledger(Results(results), "m", ids=["A6"])
    assert allocator.full_size is None, "the lower bound knows no allocators"
    assert ledger(Results(results), "m", "full", ["B1"])[0].full_size is None, "measured there, not predicted"
