"""What a card's records, one block, and changes that reached nothing may decide: on arms made up here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from framebench.features.claims.arms import GPT, TORCH, planned, ratios
from framebench.features.claims.ledger import stands_for
from framebench.features.claims.needs import Needs
from framebench.features.claims.samples import ADDED, PEAK, evidence
from framebench.records.record import Proof
from tests.features.claims.judged import MIB, made_up, one, put, turns


def test_of_one_block_the_value_is_told_and_decides_nothing(results: Path) -> None:
    found = turns(results, [0.5])
    (line,) = [line for line in found.lines if line.value]
    assert (found.verdict, line.verdict, line.bounded) == ("undecided", "undecided", False)
    assert line.measured == "-49.9 % (one draw: no interval between blocks or processes)"


def test_a_barred_arm_with_a_record_says_what_it_is(results: Path) -> None:
    for change in (60, 80):
        put(results, "transformer/torch/train/fp32/b4/tiny", 100)
        put(results, "transformer/torch/train/compile/b4/tiny", change, minute=change - 60)
    found = one(results, made_up(needs=Needs(device="gpu")))
    assert found.verdict == "precondition not met here"
    assert all(line.figure in found.remark for line in found.lines if line.decides and line.value is not None)
    assert "; here: " in found.remark


def test_a_change_that_reached_nothing_decides_nothing(results: Path) -> None:
    claim = replace(made_up(), reaches=evidence("reached"))
    for reached, verdict in ((0, "precondition not met here"), (3, "reproduced")):
        put(results, "transformer/torch/train/fp32/b4/tiny", 100, minute=reached)
        effect = Proof(proven=True, evidence={"reached": reached})
        for path in results.glob("records/**/*compile*/*.json"):
            path.unlink()
        put(results, "transformer/torch/train/compile/b4/tiny", 50, effect=effect, minute=reached)
        found = one(results, claim)
        assert found.verdict == verdict
        assert ("the change reached nothing here" in found.remark) == (reached == 0)


def test_what_measures_a_planned_arm_decides_as_its_plan_does() -> None:
    arms = planned("train/checkpoint", "train/fp32", workloads=GPT, frameworks=TORCH, quantity="added")
    same, other = (ratios("train/checkpoint", "train/fp32", workloads=GPT, frameworks=TORCH, quantity=q) for q in (ADDED, PEAK))
    assert [stands_for(same[0].measure, arms, size) for size in ("full", "cpu")] == [True, False]
    assert not stands_for(other[0].measure, arms, "full"), "another quantity"


def test_on_a_card_reserved_bytes_are_judged_and_allocated_ones_told(results: Path) -> None:
    card = {"hardware": {"cpu": "x", "device": "NVIDIA H200"}}
    for strategy, reserved, used in (("fp32", 100, 80), ("compile", 70, 20)):
        peaks = {"allocator.in_use": used * MIB, "allocator.reserved": reserved * MIB}
        put(results, f"transformer/torch/train/{strategy}/b4/tiny", origin=card, peaks=peaks, peak_samples=[peaks])
    (line,) = one(results, made_up()).lines
    assert (line.measured, line.also) == ("-30.0 %", "reserved; allocated: -75.0 %")
