"""The ledger: every claim is there, verdicts follow the records, and the files behind them
exist.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import framebench
from framebench.analysis.results import Results
from framebench.claims.advice import NONE
from framebench.claims.entries import Line, qualify
from framebench.claims.ledger import ledger, make_entry
from framebench.claims.needs import Needs
from framebench.claims.registry import REGISTRY
from framebench.claims.rule import DECIDED, Verdict
from framebench.claims.store import MachineResults
from framebench.records import store
from framebench.suite.case import Case
from framebench.suite.result import StrategyEffect
from tests import sample_records
from tests.claims.claim_records import (
    compiled,
    compiled_in_torch,
    made_up,
    one,
    probe,
    put,
    put_ranks,
)
from tests.fake_records import provenance, record


def test_two_instruments_give_no_verdict(results: Path) -> None:
    for strategy, instrument in (("fp32", "host.rss"), ("compile", "allocator.in_use")):
        put(results, f"transformer/torch/train/{strategy}/b4/tiny", instrument=instrument)
    found = one(results, made_up())
    assert found.lines[0].verdict == "not measured"
    assert found.verdict == "not measured"


UNMET: Verdict = "not testable here"


def test_gpu_claims_are_not_measured_on_a_gpu_without_records(results: Path) -> None:
    card = provenance(hardware={"cpu": "x", "device": "NVIDIA H200"})
    case = Case("transformer", "torch", "train", "fp32", 4, "tiny")
    store.append(record(case, provenance=card), store.find_file(results, "m", "torch-1"))
    for claim in ("A6", "B7", "B14", "C9"):
        assert one(results, claim).verdict == "not measured"


@pytest.mark.parametrize(
    "needs",
    [Needs(device="gpu"), Needs(size="full"), Needs(cpu_flag="amx_bf16"), Needs(language="Julia")],
)
def test_an_unmet_precondition_shows_the_number_without_a_verdict(
    results: Path, needs: Needs
) -> None:
    assert compiled(results, 80).verdict == "confirmed"
    found = compiled(results, 80, needs=needs)
    assert (found.verdict, found.value) == (UNMET, None)
    (arm,) = found.lines
    assert (arm.verdict, arm.value) == (UNMET, 0.8)
    assert arm.remark
    assert arm.remark in found.remark
    assert found.recommendation == NONE


def test_a_met_precondition_changes_no_verdict(results: Path) -> None:
    assert compiled(results, 80, needs=Needs(device="cpu", size="tiny")).verdict == "confirmed"


@pytest.mark.parametrize(
    ("peak", "verdict"),
    [(80, "by definition"), (100, "no effect"), (120, "opposite")],
)
def test_no_record_may_violate_a_definition(results: Path, peak: float, verdict: Verdict) -> None:
    found = compiled(results, peak, definition="it is proven")
    assert found.verdict == verdict
    assert "By definition: it is proven." in found.remark


def test_arms_that_disagree_are_mixed_and_named(results: Path) -> None:
    claim = replace(made_up(), deciding=compiled_in_torch())
    for workload, peak in (("transformer", 80), ("resnet50", 120), ("unet3d", 100)):
        put(results, f"{workload}/torch/train/fp32/b4/tiny", 100)
        put(results, f"{workload}/torch/train/compile/b4/tiny", peak)
    found = one(results, claim)
    assert found.verdict == "mixed"
    for name, verdict in (
        ("transformer", "confirmed"),
        ("resnet50", "opposite"),
        ("unet3d", "no effect"),
    ):
        assert re.search(rf"{verdict}: {name}/torch", found.remark)
    assert found.recommendation == NONE, "no advice rests on arms that disagree"


@pytest.mark.parametrize(
    ("peak", "message"), [(80, "Compile: -20.0 %."), (120, "Do not: +20.0 %."), (100, NONE)]
)
def test_advice_follows_the_sign_of_its_arms(results: Path, peak: float, message: str) -> None:
    assert compiled(results, peak).recommendation.startswith(message)


def test_advice_is_withheld_if_an_arm_is_missing_or_disagrees(results: Path) -> None:
    claim = replace(made_up(), deciding=compiled_in_torch("transformer", "unet3d"))
    assert compiled(results, 80).recommendation != NONE
    assert one(results, claim).recommendation == NONE, "one of two arms is missing"
    put(results, "unet3d/torch/train/fp32/b4/tiny", 100)
    put(results, "unet3d/torch/train/compile/b4/tiny", 130)
    assert one(results, claim).recommendation == NONE, "one says the opposite"
    put(results, "unet3d/torch/train/compile/b4/tiny", 70, minute=1, origin={"commit": "d" * 40})
    assert one(results, claim).recommendation == (
        "Compile: -20.0 % to -30.0 %. (2 of 2 comparisons.)"
    )
    three = replace(made_up(), deciding=compiled_in_torch())
    assert one(results, three).recommendation == NONE, "most agree, and one is missing"
    put(results, "resnet50/torch/train/fp32/b4/tiny", 100)
    put(results, "resnet50/torch/train/compile/b4/tiny", 99.9)
    assert one(results, three).recommendation == NONE, "one says that there is no effect"


@pytest.mark.parametrize(
    ("numbers", "error", "verdict"),
    [
        ({"steps": [1.0]}, "", "confirmed"),
        ({}, "AttributeError: no attribute 'backward'", "listing does not run"),
    ],
)
def test_a_snippet_is_judged_by_running_it(
    results: Path, numbers: dict[str, list[float]], error: str, verdict: Verdict
) -> None:
    """It is the same wherever the release runs: another machine's run counts."""
    probe(results, "snippet-jittor_accumulate", found=numbers, error=error)
    put(results, "transformer/torch/train/fp32/b4/tiny")
    for machine in ("m", "another"):
        (claim,) = REGISTRY.chosen(["B22"])
        found = make_entry(claim, MachineResults(Results(results), machine), "tiny")
        assert found.verdict == verdict
        assert error in found.remark


def test_a_claim_without_records_names_the_command_that_measures_it(results: Path) -> None:
    found = one(results, "A1")
    assert (found.verdict, found.command) == (
        "not measured",
        "framebench claims A1 --run --size tiny",
    )
    assert found.recommendation == NONE
    assert "{" not in found.recommendation
    assert not found.records


@pytest.mark.parametrize(
    ("status", "command"), [("wrong", ""), ("ok", "framebench claims T1 --run --size tiny")]
)
def test_a_case_that_failed_is_not_requested_again(
    results: Path, status: str, command: str
) -> None:
    for strategy in ("fp32", "compile"):
        put(results, f"transformer/torch/train/{strategy}/b4/tiny", status=status)
    assert one(results, made_up(speed=True)).command == command


def test_ranks_are_judged_by_the_fullest(results: Path) -> None:
    put_ranks(results, "deepspeed_zero0", (200, 200))
    put_ranks(results, "deepspeed_zero1", (100, 100))
    put_ranks(results, "deepspeed_zero3", (100, 60), others=50)
    sharding, memory, _ = ledger(Results(results), "m", "tiny", ["B21"])
    found = [
        (arm.cases[1].split("/")[3], arm.value, arm.verdict)
        for arm in sharding.lines
        if arm.decides and arm.value
    ]
    assert found == [
        ("deepspeed_zero1", 1.0, "no effect"),
        ("deepspeed_zero3", 0.5, "confirmed"),
    ]
    assert sharding.verdict == "mixed", "stage 1 copies the parameters, stage 3 shards them"
    held = [arm.value for arm in memory.lines if arm.value and "peak" not in arm.name]
    assert held == [200 / 300, 150 / 300]
    put_ranks(results, "zero_optimizer", (200, 0))
    put_ranks(results, "ddp", (200, 200))
    (sharding, _, _) = ledger(Results(results), "m", "tiny", ["B21"])
    (one_rank,) = [arm for arm in sharding.lines if "ZeroRedundancyOptimizer" in arm.name]
    assert one_rank.value == 1.0, "it hands all states to one rank"


def test_one_process_and_the_fullest_of_two_ranks_are_compared_by_one_instrument(
    results: Path,
) -> None:
    put(results, "transformer/torch/train/fp32/b4/tiny", 100)
    put_ranks(results, "ddp", (200, 200), peak=70, live_bytes=12 * 2**20)
    put(results, "transformer/jax/train/fp32/b4/tiny", 100)
    put_ranks(results, "replicated", (200, 200), peak=70, instrument="compiler.plan")
    (entry,) = ledger(Results(results), "m", "tiny", ["B11"])
    transformer = [line for line in entry.lines if "transformer" in line.name]
    peaks = [line.value for line in transformer if line.decides]
    assert peaks == [0.7, None], "JAX's process has no plan of its own"
    kept = [line for line in transformer if line.label == "between two steps"]
    assert [line.value for line in kept] == [pytest.approx(1.2), 1.0]


@pytest.mark.parametrize(("transfers", "message"), [(True, ""), (False, "on a CPU")])
def test_a_verdict_that_may_differ_on_a_gpu_is_qualified(
    results: Path, transfers: bool, message: str
) -> None:
    compiled(results, 80)
    assert one(results, replace(made_up(), transfers_to_gpu=transfers)).qualifier == message


def test_a_size_with_another_verdict_is_named() -> None:
    full = Line(
        "T1",
        "planned",
        "planned",
        True,
        "undecided",
        "change",
        "peak",
        1.0,
        1.0,
        0.9,
        1.1,
        left=DECIDED[:2],
        planned=True,
        device="gpu",
        cases=("transformer/torch/train/fp32/b8/full",),
    )
    small = replace(
        full,
        verdict="confirmed",
        cases=("transformer/torch/train/fp32/b4/cpu",),
        planned=False,
        device="cpu",
    )
    assert qualify("confirmed", [small, small, full], made_up()) == ["undecided on a GPU, planned"]
    split = ["confirmed on a CPU", "undecided on a GPU, planned"]
    assert qualify("mixed", [small, full], made_up()) == split


def test_a_verdict_that_only_plans_give_is_marked_beside_what_was_measured() -> None:
    measured = Line(
        "T1",
        "measured",
        "measured",
        True,
        "smaller than claimed",
        "change",
        "peak",
        0.5,
        0.5,
        0.5,
        0.5,
        device="gpu",
        cases=("transformer/torch/train/fp32/b8/full",),
    )
    planned = replace(measured, verdict="confirmed", planned=True)

    said = qualify("mixed", [measured, planned], made_up())
    assert said == ["smaller than claimed and confirmed (planned) on a GPU"]
    both_measured = qualify("mixed", [measured, replace(planned, planned=False)], made_up())
    assert both_measured == ["smaller than claimed and confirmed on a GPU"]


def test_the_range_is_that_of_decided_arms_and_advice_has_all(results: Path) -> None:
    """The row has the number of those that decided; the undecided one is named with its own."""
    claim = replace(made_up(), deciding=compiled_in_torch())
    for workload, peaks in (("transformer", (80,)), ("resnet50", (60,)), ("unet3d", (98.5, 99.5))):
        put(results, f"{workload}/torch/train/fp32/b4/tiny", 100)
        for minute, peak in enumerate(peaks):
            put(results, f"{workload}/torch/train/compile/b4/tiny", peak, minute=minute)
    found = one(results, claim)
    assert found.verdict == "confirmed"
    assert (found.value, found.low, found.high) == pytest.approx((0.7, 0.6, 0.8))
    assert "Undecided: unet3d/torch b4/tiny, -0.5 % (-1.5 to -0.5)" in found.remark
    assert found.recommendation == ("Compile: -0.5 % to -40.0 %. (2 of 3 comparisons.)")


def test_compiler_options_on_one_side_are_reported(results: Path) -> None:
    def with_options(**options: str) -> StrategyEffect:
        return StrategyEffect(proven=True, evidence={"compiler_options": options})

    compiled(results, 80)
    assert "Compiled with" not in one(results, made_up()).remark
    for minute, strategy in enumerate(("compile", "fp32"), 1):
        effect = with_options(xla_disable_hlo_passes="a_pass")
        put(
            results, f"transformer/torch/train/{strategy}/b4/tiny", 80, minute=minute, effect=effect
        )
        result = (
            "Compiled with xla_disable_hlo_passes=a_pass on one side alone: "
            "transformer/torch b4/tiny."
        )
        newest = "compile" if minute == 1 else "both"
        assert (result in one(results, made_up()).remark) == (newest == "compile")


def test_decided_arms_of_an_undecided_claim_are_told(results: Path) -> None:
    claim = replace(made_up(), deciding=compiled_in_torch())
    for workload, peaks in (
        ("transformer", (80,)),
        ("resnet50", (98.5, 99.5)),
        ("unet3d", (98.5, 99.5)),
    ):
        put(results, f"{workload}/torch/train/fp32/b4/tiny", 100)
        for minute, peak in enumerate(peaks):
            put(results, f"{workload}/torch/train/compile/b4/tiny", peak, minute=minute)
    found = one(results, claim)
    assert found.verdict == "undecided"
    assert "Confirmed: transformer/torch b4/tiny, -20.0 %" in found.remark


def test_the_ledger_is_a_data_frame() -> None:
    df = framebench.ledger(sample_records.RESULTS, sample_records.MACHINE)
    entries = ledger(Results(sample_records.RESULTS), sample_records.MACHINE)
    assert list(df["id"]) == [entry.id for entry in entries]
    assert list(df["verdict"]) == [entry.verdict for entry in entries]
    assert {"says", "claimed", "value", "low", "high", "recommendation"} <= set(df.columns)
