"""The registry: every claim is there once, and whole."""

from __future__ import annotations

import re
from typing import Any

import pytest

from framebench.claims.arms import NONE, SOME
from framebench.claims.claim import Registry, UnknownClaim
from framebench.claims.lines import applies
from framebench.claims.measures import OfProbe, Ratio, Value
from framebench.claims.needs import Conditions
from framebench.claims.planned_measures import OF_PLANS, Planned
from framebench.claims.registry import REGISTRY
from framebench.claims.samples import TIME
from framebench.strategies.strategy import AlwaysOn
from framebench.suite.selectors import parse

IDS = [f"{source}{n}" for source, last in (("A", 13), ("B", 29), ("C", 24), ("D", 11), ("R", 16)) for n in range(1, last + 1)]
APART = {
    "B1": "memory result", "B4": "memory parameters", "B9": "memory way gradient", "B11": "peak states",
    "D5": "speed collector", "B19": "memory speed version", "B21": "states memory speed",
    "B2": "memory passes", "A12": "shown returned", "C8": "evaluation training", "C12": "resident short", "C15": "peak cost",
} | dict.fromkeys(("B12", "B18", "D3"), "memory speed")  # fmt: skip


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


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("40%", "B1 memory"),
        ("mixed precision saves 40 %", "B1 memory"),
        ("is dropout wrong under a memory budget?", "R16"),
        ("gradient checkpointing makes training 30 % slower", "B2 passes"),
        ("checkpointing slower", "B2 passes"),
    ],
)
def test_a_sentence_finds_what_shares_most_words_with_it(asked: str, found: str) -> None:
    names = [claim.name for claim in REGISTRY.chosen([asked])]
    assert found in names
    assert len(names) < 7
    assert bool(REGISTRY.inexact([asked])) == (asked != "40%")


def test_one_word_in_common_is_no_answer() -> None:
    with pytest.raises(UnknownClaim, match="none with these words"):
        REGISTRY.chosen(["zzz memory"])


@pytest.mark.parametrize("words", ["amp", "mixed precision", "Mixed-Precision"])
def test_claims_are_found_by_their_words(words: str) -> None:
    found = [c.name for c in REGISTRY.chosen([words])]
    assert "B1 memory" in found
    assert len(found) < len(REGISTRY.claims) / 4
    assert [c.id for c in REGISTRY.chosen(["A1", "a1"])] == ["A1"], "an id is no word"


def test_unknown_claims_are_answered_by_the_known_ones() -> None:
    with pytest.raises(UnknownClaim, match=r"Z1, and none with these words; claims: A1 to A13, B1"):
        REGISTRY.chosen(["A1", "z1"])
    assert [c.id for c in REGISTRY.chosen(["c10"])] == ["C10"]


@pytest.mark.parametrize("claim", REGISTRY.claims, ids=lambda c: c.name)
def test_claims_are_whole(claim: Any) -> None:
    """Arms have names of their own and valid cases that can run; a claim without arms says why."""
    arms = [f"{arm.name} {arm.measure.where('cpu')}" for arm in claim.every_arm]
    assert len(set(arms)) == len(arms)
    assert claim.arms or claim.absent or claim.needs.unmet(Conditions()) or claim.needs.lacking()
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
        assert len(cases) > 1 or isinstance(arm.measure, (Value, OfProbe, *OF_PLANS)), arm.name
        if isinstance(arm.measure, Value):
            assert arm.target.minimum or arm.target.value or arm.target in (SOME, NONE), (
                "a share or a count may come out either way"
            )


@pytest.mark.parametrize("claim", REGISTRY.claims, ids=lambda c: c.name)
def test_advice_names_what_it_rests_on(claim: Any) -> None:
    """Its figures are those of arms whose sign it gives; whatever the arms say, one sentence of it may be left."""
    assert claim.advice
    for one in claim.advice:
        assert ("{" in one.text) <= (one.sign is not None), one.text
        assert not one.arms or any(one.arms in f"{arm.name} {arm.measure.where('cpu')}" for arm in claim.every_arm), one.arms
        assert one.sign is None or claim.arms or one.arms, "it rests on deciding arms, and there are none"
        assert one.text.endswith((".", ")")), one.text
        numbers = re.sub(r"C?A?\d+\b(?=\.)|version \d|PyTorch [\d.]+|Adam\w*|8-bit|R\d+|C\d+", "", one.text)
        assert one.sign is not None or not re.search(r"\d+(\.\d+)? %", numbers), "a figure without arms"


def test_planned_arms_are_of_two_cases_at_full_size() -> None:
    planned = [arm for claim in REGISTRY.claims for arm in claim.every_arm if isinstance(arm.measure, Planned)]
    assert len(planned) > 40
    for arm in planned:
        base, change = arm.measure.planned()
        assert base != change
        assert {case.size for case in (base, change)} == {"full"}
        assert "planned" in arm.name


def test_sizes_of_our_own_are_marked() -> None:
    ours = {claim.name for claim in REGISTRY.claims for arm in claim.arms if arm.target.ours}
    assert ours == {"B21 states"}


@pytest.mark.parametrize("claim", REGISTRY.claims, ids=lambda c: c.name)
def test_what_recomputes_in_a_scan_is_compared_with_a_scan(claim: Any) -> None:
    """Both sides differ in what is claimed alone: JAX's Transformer in training is scanned where it is recomputed."""
    for arm in claim.arms:
        if not isinstance(arm.measure, Ratio | Planned):
            continue
        base, change = arm.measure.base, arm.measure.change
        if (change.workload, change.framework, change.scenario) == ("transformer", "jax", "train"):
            added = set(change.strategy.split("+")) - set(base.strategy.split("+"))
            assert "checkpoint" not in added or base.strategy == "scan", arm.name


def test_what_has_no_arm_says_what_the_suite_lacks() -> None:
    """A device would not decide it: it is not measured, whatever else it needs. Another language is a precondition."""
    for claim in REGISTRY.claims:
        if not claim.arms and not claim.absent and not claim.needs.language:
            assert claim.needs.lacking(), claim.name


def test_limits_of_our_own_are_marked() -> None:
    """An equality is an error below a limit, which the row must print."""
    for claim in REGISTRY.claims:
        limits = {arm.target.null for arm in claim.arms} - {0.0, 0.5, 1.0, 2.0}
        assert not limits or "ours" in claim.claimed or "ours" in claim.part, claim.name


def test_of_an_article_on_pytorch_its_arms_decide() -> None:
    """Those of other frameworks stand beside: source C is on PyTorch's test phase."""
    for claim in (claim for claim in REGISTRY.claims if claim.source == "C"):
        assert not [arm.name for arm in claim.arms if re.search(r"/(jax|jittor)\b", arm.name)], claim.name


def test_a_precondition_is_named_by_the_claims_own_sentence() -> None:
    """Of a device: a tool of CUDA's or of one card, or seconds, which are a GPU's in every article."""
    named = re.compile(
        r"GPU|CUDA|cuda|tensor cores|nvidia|caching allocator|gc\.collect|set_per_process|cache cannot|three|together|wait",
        re.I,
    )
    for claim in REGISTRY.claims:
        timed = any(getattr(arm.measure, "quantity", None) is TIME for arm in claim.arms) or claim.part == "speed"
        if claim.needs.device == "gpu" and not claim.needs.language:
            assert timed or named.search(claim.says), claim.name
        assert claim.needs.card in claim.says
        if claim.needs.size:
            assert re.search(r"3-D|batch 32|1\.8 times|together", claim.says), claim.name


@pytest.mark.parametrize("typed", [["B1 memory"], ["b1", "MEMORY"], ["b1-memory"], ["B1  Memory"]])
def test_a_part_of_a_claim_is_named_as_it_is_printed(typed: list[str]) -> None:
    assert [claim.name for claim in REGISTRY.chosen(typed)] == ["B1 memory"]


def test_ids_and_parts_stand_beside_each_other() -> None:
    assert [claim.name for claim in REGISTRY.chosen(["b1", "memory", "A1"])] == ["A1", "B1 memory"]
    assert [claim.name for claim in REGISTRY.chosen(["B1"])] == ["B1 memory", "B1 result"]
    assert all(REGISTRY.chosen([claim.name]) == (claim,) for claim in REGISTRY.claims if claim.part)


@pytest.mark.parametrize("claim", REGISTRY.claims, ids=lambda c: c.name)
def test_what_is_said_to_stand_beside_is_there(claim: Any) -> None:
    said = " ".join((claim.note, *(one.text for one in claim.advice)))
    assert claim.evidence or "beside" not in said


def test_a_single_word_finds_claims_where_few_have_it() -> None:
    claims = REGISTRY.chosen(["gradient checkpointing"])
    assert {"B2 memory", "B2 passes", "B3", "C11"} <= {c.name for c in claims}
    assert REGISTRY.inexact(["gradient checkpointing"]) == ["GRADIENT CHECKPOINTING"]
    assert len(claims) < 25
    with pytest.raises(UnknownClaim, match="none with these words"):
        REGISTRY.chosen(["memory forever"])
