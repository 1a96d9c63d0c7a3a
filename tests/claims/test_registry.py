"""The registry: every claim is there once, and whole."""

from __future__ import annotations

import operator
import tomllib
from pathlib import Path

import pytest

from framebench.claims.claim import Claim
from framebench.claims.measures import OfCases, OfProbe, Planned, is_ratio
from framebench.claims.needs import Conditions
from framebench.claims.refs import Ref, read_ref
from framebench.claims.registry import REGISTRY, Registry, UnknownClaim
from framebench.claims.rows import FOLDER, make_measurements, read_source
from framebench.strategies.strategy import AlwaysOn
from framebench.suite.selectors import parse


def test_a_claim_cannot_be_there_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        Registry((REGISTRY.claims[0], REGISTRY.claims[0]))


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.toml")), ids=operator.attrgetter("stem"))
def test_every_row_stands_for_a_case_that_exists(file: Path) -> None:
    for claim in tomllib.loads(file.read_text())["claim"]:
        for row in (*claim.get("deciding", ()), *claim.get("informational", ())):
            assert make_measurements(**{"expect": claim.get("expect"), **row}), (claim["id"], row)


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("train/fp32", Ref("resnet50", "jax", "train", "fp32")),
        (
            "train/amp_bf16+checkpoint@-2",
            Ref("resnet50", "jax", "train", "amp_bf16+checkpoint", shift=-2),
        ),
        ("train/ddp@x2", Ref("resnet50", "jax", "train", "ddp", ranks=2)),
        (
            "train/fp32@b1:full-1b",
            Ref("resnet50", "jax", "train", "fp32", batch=1, own_size="full-1b"),
        ),
        ("unet3d/torch/eval/no_grad", Ref("unet3d", "torch", "eval", "no_grad")),
    ],
)
def test_a_row_names_cases_in_any_size(text: str, ref: Ref) -> None:
    assert read_ref(text, "resnet50", "jax") == ref


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"candidate": "train/fp32"}, "expect"),
        ({"candidate": "train/compile", "base": "train/fp32", "expects": "less"}, "expects"),
        (
            {"candidate": "train compile", "base": "train/fp32", "expect": "less"},
            "'train compile' names no case",
        ),
        ({"candidate": "train/compile", "base": "train/fp32", "expect": "lesser"}, "lesser"),
    ],
)
def test_a_malformed_row_names_its_claim_and_the_fault(
    row: dict[str, str], message: str, tmp_path: Path
) -> None:
    claim = {
        "id": "T1",
        "says": "",
        "claimed": "",
        "metric": "",
        "transfers_to_gpu": True,
        "why": "",
        "deciding": [row],
    }
    file = tmp_path / "t.toml"
    with pytest.raises(ValueError, match=f"t.toml: claim T1: (.|\\n)*{message}"):
        list(read_source(file, [claim]))


def test_an_unknown_claim_lists_the_known_ones() -> None:
    with pytest.raises(UnknownClaim, match=r"Z1, and none with these words; claims: A1 to A16, B1"):
        REGISTRY.chosen(["A1", "z1"])
    assert [c.id for c in REGISTRY.chosen(["c10"])] == ["C10"]


@pytest.mark.parametrize("claim", REGISTRY.claims, ids=operator.attrgetter("name"))
def test_arms_of_a_claim_are_distinct_and_name_cases_that_can_run(claim: Claim) -> None:
    assert (
        claim.deciding
        or claim.absent
        or claim.needs.describe_unmet(Conditions())
        or claim.needs.lacking
    )
    places = [f"{arm.name} {arm.measure.describe_place('cpu')}" for arm in claim.measurements]
    assert len(set(places)) == len(places)
    for arm in claim.measurements:
        for size in ("cpu", "tiny", "full"):
            for case in arm.measure.cases(size):
                assert parse(case.id) == case
                too_small = f"{case.workload}/{case.framework}/{case.size}" in case.plan.exceptions
                assert case.support.supported or too_small, case.id


def test_no_arm_is_compared_with_itself() -> None:
    for claim in REGISTRY.claims:
        for arm in claim.measurements:
            cases = arm.measure.cases("cpu")
            assert len(set(cases)) == len(cases)
            is_alone = isinstance(arm.measure, OfProbe) or (
                isinstance(arm.measure, OfCases) and arm.measure.kind == "value"
            )
            assert len(cases) > 1 or arm.measure.is_planned or is_alone, arm.name
            for case in cases:
                # what is always on is the baseline itself
                assert (
                    not isinstance(case.support, AlwaysOn) or case.strategy == case.stage.baseline
                )


def test_planned_arms_are_of_two_cases_at_full_size() -> None:
    planned = [
        arm
        for claim in REGISTRY.claims
        for arm in claim.measurements
        if isinstance(arm.measure, Planned)
    ]
    assert len(planned) > 40
    for arm in planned:
        base, change = arm.measure.planned_cases()
        assert base != change
        assert {case.size for case in (base, change)} == {"full"}
        assert "planned" in arm.name


def test_jax_recomputing_in_a_scan_is_compared_with_a_scan() -> None:
    """Without recomputing JAX's Transformer is no scan, so that the two would differ in more than
    what is claimed.
    """
    for claim in REGISTRY.claims:
        for arm in claim.deciding:
            if is_ratio(arm.measure) or isinstance(arm.measure, Planned):
                base, change = (
                    arm.measure.refs
                    if is_ratio(arm.measure)
                    else (arm.measure.base, arm.measure.candidate)
                )
                if (change.workload, change.framework, change.scenario) == (
                    "transformer",
                    "jax",
                    "train",
                ):
                    recomputes = (
                        "checkpoint" in change.strategy and "checkpoint" not in base.strategy
                    )
                    assert not recomputes or base.strategy == "scan", arm.name


@pytest.mark.parametrize("typed", [["B1 memory"], ["b1", "MEMORY"], ["b1-memory"]])
def test_a_part_of_a_claim_is_found_by_its_printed_name(typed: list[str]) -> None:
    assert [claim.name for claim in REGISTRY.chosen(typed)] == ["B1 memory"]


def test_ids_and_parts_can_be_combined() -> None:
    assert [claim.name for claim in REGISTRY.chosen(["b1", "memory", "A1"])] == ["A1", "B1 memory"]
    assert [claim.name for claim in REGISTRY.chosen(["B1"])] == ["B1 memory", "B1 result"]
    assert all(REGISTRY.chosen([claim.name]) == (claim,) for claim in REGISTRY.claims if claim.part)
