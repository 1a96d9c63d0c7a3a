"""What a claim is judged by: numbers of its arms, as records have them, and the verdicts that
follow.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framebench.analysis.results import Results
from framebench.claims.entries import as_json
from framebench.claims.measures import divide
from framebench.claims.missing import find_missing
from framebench.claims.needs import Needs
from framebench.claims.registry import REGISTRY
from framebench.claims.rule import NoNumber, Target, Verdict
from framebench.claims.samples import estimate_bytes
from framebench.claims.store import MachineResults
from framebench.suite.protocol import VERSION
from framebench.suite.result import StrategyEffect
from tests.claims.claim_records import compiled, made_up, one, put, turns


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([0.5] * 5, "confirmed"),
        ([2.0] * 5, "opposite"),
        ([1.0] * 5, "no effect"),
        ([0.7, 1.4, 0.8, 1.3, 1.0], "undecided"),
        ([0.5], "undecided"),  # nothing tells how blocks differ
    ],
)
def test_times_are_judged_over_blocks(results: Path, ratios: list[float], verdict: Verdict) -> None:
    found = turns(results, ratios)
    assert found.verdict == verdict
    assert found.value == pytest.approx(statistics.geometric_mean(ratios), rel=0.01)
    assert json.loads(json.dumps(as_json(found), allow_nan=False))["low"] == found.low
    assert ("single draws: no interval" in found.measured) == (len(ratios) == 1)


def test_times_without_a_common_block_have_no_ratio(results: Path) -> None:
    compiled(results, 80)
    speed = made_up(speed=True)
    found = one(results, speed)
    assert (found.verdict, found.value) == ("not measured", None)
    assert "share no block" in found.remark
    missing = find_missing([speed], MachineResults(Results(results), "m"), "tiny")
    assert {case.strategy for case in missing.timed} == {"fp32", "compile"}
    turns(results, [0.5] * 3)
    assert not find_missing([speed], MachineResults(Results(results), "m"), "tiny").timed


@pytest.mark.parametrize(
    ("peak", "verdict"),
    [
        (60, "confirmed"),
        (65, "smaller than claimed"),
        (50, "confirmed"),
        (20, "larger than claimed"),
        (100, "no effect"),
    ],
)
def test_sizes_are_judged_and_numbers_are_the_records_own(
    results: Path, peak: float, verdict: Verdict
) -> None:
    found = compiled(results, peak, target=Target(-1, 1.0, 0.01, 0.5))
    assert found.verdict == verdict
    assert found.value == pytest.approx(peak / 100, abs=1e-6)
    assert found.low <= found.value <= found.high
    assert f"{peak - 100:+.1f} %" in found.measured


def test_a_changed_record_changes_the_verdict(results: Path) -> None:
    assert compiled(results, 80).verdict == "confirmed"
    put(
        results,
        "transformer/torch/train/compile/b4/tiny",
        120,
        minute=1,
        origin={"commit": "d" * 40},
    )
    assert one(results, made_up()).verdict == "opposite"


def test_repeats_of_the_same_code_widen_the_interval(results: Path) -> None:
    narrow = compiled(results, 80)
    put(results, "transformer/torch/train/compile/b4/tiny", 85, 0.5, minute=1)
    wide = one(results, made_up())
    assert (narrow.low, narrow.high) == (narrow.value, narrow.value)
    assert wide.low == pytest.approx(0.8)
    assert wide.high == pytest.approx(0.85)
    assert len(wide.lines[0].records) == 3


def test_resident_memory_has_the_instruments_resolution(results: Path) -> None:
    for strategy, peak in (("fp32", 100), ("compile", 80)):
        put(results, f"transformer/torch/train/{strategy}/b4/tiny", peak, instrument="host.rss")
    found = one(results, made_up())
    # half a per cent and an eighth of a MiB, either way
    assert found.low == pytest.approx(0.790, abs=5e-4)
    assert found.high == pytest.approx(0.810, abs=5e-4)


def test_what_resident_memory_cannot_tell_from_nothing_has_no_ratio() -> None:
    small, large = (estimate_bytes([size], "host.rss") for size in (2**16, 2**20))
    with pytest.raises(NoNumber, match="may be zero by host"):
        divide(small, large)
    assert (
        divide(
            estimate_bytes([2**15], "allocator.in_use"), estimate_bytes([2**16], "allocator.in_use")
        ).value
        == 2
    )


def test_the_pinned_version_counts(results: Path) -> None:
    compiled(results, 80)
    put(results, "transformer/torch/train/compile/b4/tiny", 300, 9.0, minute=5, version="2.9.1")
    assert one(results, made_up()).verdict == "confirmed"


def test_the_arms_of_a_ratio_share_a_protocol(results: Path) -> None:
    """The newest that the machine has numbers under."""
    compiled(results, 80)
    base, change = (
        f"transformer/torch/train/{strategy}/b4/tiny" for strategy in ("fp32", "compile")
    )
    found = one(results, made_up())
    assert (found.verdict, found.protocol, found.value) == ("confirmed", VERSION, 0.8)
    put(results, change, 20, minute=5, origin={"protocol": VERSION + 1})
    found = one(results, made_up())
    assert (found.verdict, found.value) == ("not measured", None)
    put(results, base, 20, minute=5, origin={"protocol": VERSION + 1})
    found = one(results, made_up())
    assert (found.verdict, found.protocol, found.value) == (
        "no effect",
        VERSION + 1,
        1.0,
    )


@pytest.mark.parametrize("status", ["oom", "wrong"])
def test_a_failed_case_has_its_reason_and_no_number(results: Path, status: Any) -> None:
    put(results, "transformer/torch/train/fp32/b4/tiny")
    put(results, "transformer/torch/train/compile/b4/tiny", status=status, reason="because of this")
    found = one(results, made_up())
    assert (found.verdict, found.value) == ("not measured", None)
    assert f"{status}: because of this" in found.remark


def test_an_unproven_strategy_has_no_verdict(results: Path) -> None:
    put(results, "transformer/torch/train/fp32/b4/tiny")
    put(
        results,
        "transformer/torch/train/compile/b4/tiny",
        50,
        effect=StrategyEffect(proven=False, evidence={}),
    )
    found = one(results, made_up())
    assert found.verdict == "not measured"
    assert "effect is not confirmed" in found.remark


@pytest.mark.parametrize(("nodes", "verdict"), [(0, "no effect"), (7, "confirmed")])
def test_counts_are_judged(results: Path, nodes: int, verdict: Verdict) -> None:
    evidence = {"graph_nodes": nodes, "saved_tensors": nodes}
    put(
        results,
        "transformer/torch/eval/no_grad/b4/tiny",
        effect=StrategyEffect(proven=True, evidence=evidence),
    )
    (c2,) = REGISTRY.chosen(["C2"])
    found = one(results, replace(c2, deciding=c2.deciding[-2:-1]))
    assert (found.verdict, found.value, found.low, found.high) == (verdict, nodes, nodes, nodes)


def test_shares_are_subtracted_since_one_may_be_zero(results: Path) -> None:
    """The arm next to B15 tells how much less time is waited.

    One process has no interval; half a per cent less is not worth having.
    """
    (b15,) = REGISTRY.chosen(["B15"])
    waited = replace(b15, needs=Needs(), deciding=b15.informational[:1])
    for i, (before, after) in enumerate([(0.3, 0.1), (0.31, 0.11), (0.29, 0.1)]):
        put(results, "resnet50/torch/pipeline/memmap/b4/tiny", shares={"wait": before}, minute=i)
        put(results, "resnet50/torch/pipeline/prefetch/b4/tiny", shares={"wait": after}, minute=i)
        if i == 0:
            assert one(results, waited).verdict == "undecided"
    assert one(results, waited).verdict == "confirmed"
    assert one(results, waited).value == pytest.approx(-0.197, abs=0.001)


def test_non_numeric_evidence_is_ignored(results: Path) -> None:
    put(
        results,
        "transformer/torch/eval/no_grad/b4/tiny",
        effect=StrategyEffect(proven=True, evidence={"graph_nodes": "<b>"}),
    )
    assert one(results, "C2").verdict == "not measured"


@pytest.mark.parametrize(
    ("power", "verdict"),
    [(1.0, "no effect"), (1.5, "opposite"), (0.3, "confirmed")],
)
def test_exponents_are_judged(results: Path, power: float, verdict: Verdict) -> None:
    for batch in (4, 8):
        peak = 10 * batch**power
        put(results, f"transformer/jittor/eval/no_grad/b{batch}/tiny", peak, live_bytes=0)
    (a2,) = REGISTRY.chosen(["A2"])
    found = one(
        results,
        replace(
            a2, deciding=tuple(one for one in a2.deciding if one.name == "transformer/jittor eval")
        ),
    )
    assert found.verdict == verdict
    assert found.value == pytest.approx(power, abs=1e-3)
