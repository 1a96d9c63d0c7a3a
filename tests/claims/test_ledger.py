"""The ledger: from records, plans and programs' results to a claim's number and verdict."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import framebench
from framebench.analysis.results import Results
from framebench.claims.ledger import is_measured, make_ledger
from framebench.claims.lines import add_gpu_lines, make_line
from framebench.claims.preconditions import Preconditions
from framebench.claims.registry import REGISTRY
from framebench.claims.show import describe_cases, list_machines
from framebench.claims.store import MachineResults
from framebench.claims.wording import NO_ADVICE
from framebench.models import spec
from framebench.records.record_parts import Rank
from framebench.suite.protocol import VERSION
from framebench.suite.result import StrategyEffect, Verification
from tests import sample_records
from tests.claims.claim_records import (
    COMPILED,
    EAGER,
    GPU,
    MIB,
    add_blocks,
    add_both,
    add_record,
    judge_claim,
    make_claim,
    make_plans,
)

HALF = {"expect": {"direction": -1, "minimum": 0.01, "value": 0.5}}
EVERYWHERE = {"workloads": []}
NEWER = {"commit": "d" * 40}
TIME = {"quantity": "time", "expect": "faster"}
PLANNED = {"kind": "planned"}


@pytest.mark.parametrize(
    ("peak", "verdict"), [(60, "confirmed"), (65, "smaller than claimed"), (100, "no effect")]
)
def test_a_size_is_judged_by_the_records_own_numbers(results, peak, verdict):
    """The claim is that half of the 100 MiB is enough."""
    add_both(results, peak)
    entry = judge_claim(results, make_claim(HALF))
    assert entry.verdict == verdict
    assert entry.value == pytest.approx(peak / 100, abs=1e-6)
    assert f"{peak - 100:+.1f} %" in entry.measured


@pytest.mark.parametrize(
    ("place", "is_own"),
    [
        ("records/{machine}/torch-1.jsonl:1", True),
        ("claims/{machine}.jsonl:1", True),
        ("claims/other.jsonl:1", False),
        ("planned/h100-80gb/torch-2.13.0.jsonl", False),
    ],
)
def test_a_machine_has_measured_what_its_own_files_hold(results, place, is_own):
    """Behind its verdict may also be a plan, or a program that another machine has run."""
    add_both(results, 60)
    entry = judge_claim(results, make_claim(HALF))
    assert is_measured(entry)
    entry = replace(entry, records=(place.format(machine=entry.machine),))
    assert is_measured(entry) == is_own


def test_repeats_widen_the_interval_and_newer_code_replaces_them(results):
    add_both(results, 80)
    add_record(results, COMPILED, 85, minute=1)
    entry = judge_claim(results, make_claim())
    assert (entry.low, entry.high) == pytest.approx((0.8, 0.85))
    assert len(entry.records) == 3
    add_record(results, COMPILED, 120, minute=2, origin=NEWER)
    assert judge_claim(results, make_claim()).verdict == "opposite"


def test_the_resolution_of_resident_memory_widens_the_interval(results):
    add_both(results, 80, instrument="host.rss")
    entry = judge_claim(results, make_claim())
    assert (entry.low, entry.high) == pytest.approx((0.790, 0.810), abs=5e-4)


@pytest.mark.parametrize(
    ("instrument", "named"),
    [("host.rss", ""), ("allocator.in_use", "by allocator.in_use"), ("compiler.plan", None)],
)
def test_a_number_names_its_instrument_where_tables_have_another(instrument, named, results):
    add_both(results, 80, instrument=instrument)
    (line,) = judge_claim(results, make_claim()).lines
    assert line.also == (f"by {instrument}" if named is None else named)
    assert line.number == f"{line.measured} {line.also}".strip()


def test_two_instruments_give_no_verdict(results):
    add_record(results, EAGER, instrument="host.rss")
    add_record(results, COMPILED, instrument="allocator.in_use")
    assert judge_claim(results, make_claim()).verdict == "not measured"


def test_a_base_below_the_resolution_of_resident_memory_has_no_ratio(results):
    add_record(results, EAGER, 0.05, instrument="host.rss")
    add_record(results, COMPILED, 1, instrument="host.rss")
    assert "may be zero by host.rss" in judge_claim(results, make_claim()).remark


def test_both_sides_share_the_pinned_version_and_the_newest_protocol(results):
    add_both(results, 80)
    add_record(results, COMPILED, 300, minute=1, version="2.9.1")
    assert judge_claim(results, make_claim()).value == 0.8
    add_record(results, COMPILED, 20, minute=2, origin={"protocol": VERSION + 1})
    assert judge_claim(results, make_claim()).verdict == "not measured"


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
def test_times_are_judged_over_blocks(results, ratios, verdict):
    add_blocks(results, ratios)
    entry = judge_claim(results, make_claim(TIME))
    assert entry.verdict == verdict
    assert ("no interval" in entry.measured) == (len(ratios) == 1)


def test_times_without_a_common_block_have_no_ratio(results):
    add_both(results, 80)
    entry = judge_claim(results, make_claim(TIME))
    assert (entry.verdict, entry.value) == ("not measured", None)
    assert "share no block" in entry.remark


@pytest.mark.parametrize(
    ("power", "verdict"), [(1.0, "no effect"), (1.5, "opposite"), (0.3, "confirmed")]
)
def test_the_growth_with_the_batch_is_an_exponent(results, power, verdict):
    for batch in (4, 8):
        add_record(
            results, f"transformer/torch/train/fp32/b{batch}/tiny", 10 * batch**power, live_bytes=0
        )
    growth = {"kind": "flattest", "case": "train/fp32", "candidate": "", "quantity": "added"}
    entry = judge_claim(results, make_claim(growth))
    assert entry.verdict == verdict
    assert entry.value == pytest.approx(power, abs=1e-3)


@pytest.mark.parametrize(
    ("claim", "peaks", "value", "verdict"),
    [
        # A2: the ratio of the second slope to the first; 100 MiB are there at any batch
        ("A2", (110, 120, 140), 1.0, "no effect"),
        ("A2", (110, 120, 142), 1.1, "opposite"),
        ("A2", (110, 120, 138), 0.9, "confirmed"),
        ("A2", (110, 100, 140), None, "not measured"),
        # A17: how far that ratio is from 1
        ("A17", (110, 120, 140), 0.0, "no effect"),
        ("A17", (110, 120, 142), 0.1, "confirmed"),
        ("A17", (110, 120, 138), 0.1, "confirmed"),
        ("A17", (110, 100, 140), None, "not measured"),
    ],
)
def test_the_slope_of_a_peak_is_compared_between_successive_batches(
    claim, peaks, value, verdict, results
):
    for batch, peak in zip((2, 4, 8), peaks, strict=True):
        add_record(results, f"unet3d/jittor/train/fp32/b{batch}/cpu", peak)
    (row,) = REGISTRY.select([claim])
    (comparison,) = [one for one in row.deciding if one.name == "unet3d/jittor train"]
    line = make_line(row, comparison, MachineResults(Results(results), "m"), "cpu")
    assert line.verdict == verdict
    assert line.value == pytest.approx(value)


@pytest.mark.parametrize("proven", [True, False])
@pytest.mark.parametrize(
    ("nodes", "verdict"), [(0, "no effect"), (7, "confirmed"), ("<b>", "not measured")]
)
def test_counts_of_the_proof_are_judged_if_they_are_numbers(results, nodes, verdict, proven):
    add_record(
        results, EAGER, effect=StrategyEffect(proven=proven, evidence={"graph_nodes": nodes})
    )
    counted = {"kind": "value", "case": "train/fp32", "quantity": "evidence: graph_nodes"}
    assert judge_claim(results, make_claim(counted | {"expect": "some"})).verdict == verdict


@pytest.mark.parametrize(
    ("claim", "cases", "evidence", "verdict"),
    [
        ("B33", ["train/fp32", "train/checkpoint"], {"block_runs": 4}, "no effect"),
        ("C4", ["eval/no_grad", "eval/grad"], {"buffers_changed": 3}, "confirmed"),
        ("C9", ["train/memory_fraction"], {"refused": False}, "no effect"),
        (
            "C9",
            ["train/memory_fraction"],
            {"refused": True, "refused_without": True},
            "not measured",
        ),
        ("B12", ["train/empty_cache"], {"segments_freed_by_the_call": 1}, "no effect"),
        ("C31", ["train/empty_cache"], {"segments_freed_by_the_call": 0}, "no effect"),
        # an older count, which has in it what the step gives back by itself
        ("C31", ["train/empty_cache"], {"segments_given_back": 31}, "not measured"),
    ],
)
def test_a_count_that_the_proof_demands_may_turn_out_otherwise(
    results, claim, cases, evidence, verdict
):
    for workload, case in product(spec.list_confirmed_workloads(), cases):
        batch = spec.load_workload(workload).preset("tiny").base
        add_record(
            results,
            f"{workload}/torch/{case}/b{batch}/tiny",
            effect=StrategyEffect(proven=False, evidence=evidence),
            origin={"hardware": GPU},
        )
    assert judge_claim(results, claim).verdict == verdict


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        (["ok"], "confirmed"),
        (["wrong"], "no effect"),
        (["ok", "wrong"], "no effect"),
        (["wrong", "ok"], "confirmed"),
        (["oom"], "not measured"),
    ],
)
def test_the_newest_result_decides_whether_a_strategy_is_usable(results, statuses, verdict):
    """A13: checkpointing can be used in Jittor, in every workload with confirmed references."""
    for workload in spec.list_confirmed_workloads():
        batch = spec.load_workload(workload).preset("tiny").base
        for minute, status in enumerate(statuses):
            add_record(
                results,
                f"{workload}/jittor/train/checkpoint/b{batch}/tiny",
                minute=minute,
                status=status,
                verification=Verification(passed=status == "ok"),
            )
    entry = judge_claim(results, "A13")
    assert entry.verdict == verdict
    assert bool(entry.records) == (verdict != "not measured")


def test_fragments_are_free_bytes_between_blocks_in_use(results):
    """Two cases reserve and use as much, and differ in the allocator's counter of free bytes."""
    for strategy, free in (("padded", 10), ("raw", 30)):
        add_record(
            results,
            f"transformer/torch/varlen/{strategy}/b4/tiny",
            50,  # twice as much is reserved
            allocator={"inactive_split_bytes": free * MIB},
            origin={"hardware": GPU},
        )
    entry = judge_claim(results, "C3")
    assert (entry.verdict, entry.value) == ("confirmed", pytest.approx(0.2))


def test_ranks_are_judged_by_the_fullest(results):
    state_bytes_by_rank = {"ddp": [200, 200], "zero_optimizer": [200, 0]}
    for strategy, sizes in state_bytes_by_rank.items():
        ranks = [
            Rank(rank=i, peaks={}, held={"optimizer states": size}) for i, size in enumerate(sizes)
        ]
        add_record(results, f"transformer/torch/train/{strategy}/b4x2/tiny", ranks=ranks)
    states = {
        "candidate": "train/zero_optimizer@x2",
        "base": "train/ddp@x2",
        "quantity": "states of the fullest rank",
    }
    # the fullest rank has 200 bytes in both: all states of ZeRO are on one rank
    assert judge_claim(results, make_claim(states)).value == 1.0


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"status": "oom", "reason": "because of this"}, "oom: because of this"),
        ({"status": "wrong", "reason": "because of this"}, "wrong: because of this"),
        ({"effect": StrategyEffect(proven=False, evidence={})}, "effect is not confirmed"),
    ],
)
def test_a_failed_case_has_its_reason_and_no_number(results, changes, remark):
    add_record(results, EAGER)
    add_record(results, COMPILED, 50, **changes)
    entry = judge_claim(results, make_claim())
    assert (entry.verdict, entry.value) == ("not measured", None)
    assert remark in entry.remark


@pytest.mark.parametrize(
    ("status", "command"), [("wrong", ""), ("", "framebench claims T1 --run --size tiny")]
)
def test_a_missing_case_has_a_command_unless_it_failed(results, status, command):
    add_record(results, EAGER)
    if status:
        add_record(results, COMPILED, status=status)
    suggested = f"{command} --results {results}" if command else ""
    assert judge_claim(results, make_claim()).command == suggested


@pytest.mark.parametrize(
    "needs",
    [Preconditions(device="gpu"), Preconditions(size="full"), Preconditions(cpu_flag="amx_bf16")],
)
def test_an_unmet_precondition_shows_the_number_without_a_verdict(results, needs):
    add_both(results, 80)
    entry = judge_claim(results, make_claim(needs=needs))
    assert (entry.verdict, entry.value) == ("not testable here", None)
    assert "here: -20.0 %" in entry.remark
    assert entry.recommendation == NO_ADVICE
    # numbers of another framework at this size may stand below it
    assert entry.qualifier == "needs full size in PyTorch" or not needs.size


@pytest.mark.parametrize(
    ("peak", "verdict"), [(80, "by definition"), (100, "no effect"), (120, "opposite")]
)
def test_records_against_a_definition_overrule_it(results, peak, verdict):
    add_both(results, peak)
    assert judge_claim(results, make_claim(definition="it is proven")).verdict == verdict


@pytest.fixture
def disagreeing(results) -> Path:
    """Return records by which compilation takes less, more and as much, by workload."""
    add_both(results, 80, "transformer")
    add_both(results, 120, "resnet50")
    add_both(results, 100, "unet3d")
    return results


def test_one_comparison_confirms_a_claim_that_says_may(disagreeing):
    entry = judge_claim(disagreeing, make_claim(EVERYWHERE, may=True))
    the_transformers = 0.8
    assert (entry.verdict, entry.value) == ("confirmed", the_transformers)


def test_open_comparisons_count_in_the_advice_but_not_in_the_number(results):
    add_both(results, 80)
    add_both(results, 60, "resnet50")
    add_both(results, 98.5, "unet3d")
    # -1.5 % and -0.5 % lie on both sides of the smallest gain that matters, so U-Net is open
    add_record(results, "unet3d/torch/train/compile/b4/tiny", 99.5, minute=1)
    entry = judge_claim(results, make_claim(EVERYWHERE))
    assert entry.verdict == "confirmed"
    assert (entry.value, entry.low, entry.high) == pytest.approx((0.7, 0.6, 0.8))
    assert "1 open (no effect or confirmed)" in entry.qualifier
    measured = entry.list_summarized(planned=False)
    assert describe_cases(measured) == "torch: resnet50 b4/tiny, transformer b4/tiny"
    assert entry.recommendation == "Compile: -0.5 to -40.0 %. (2 of 3 compared.)"


@pytest.mark.parametrize(
    ("peak", "advice"), [(80, "Compile: -20.0 %."), (120, "Do not: +20.0 %."), (100, NO_ADVICE)]
)
def test_advice_follows_the_sign_of_its_comparisons(results, peak, advice):
    add_both(results, peak)
    assert judge_claim(results, make_claim()).recommendation.startswith(advice)


def test_advice_is_withheld_if_a_comparison_is_missing(results):
    add_both(results, 80)
    add_both(results, 80, "unet3d")
    assert judge_claim(results, make_claim(EVERYWHERE)).recommendation == NO_ADVICE


@pytest.mark.parametrize(
    ("planned", "judged"),
    [
        (150, "opposite (planned for a GPU)"),
        (50, "confirmed (planned for a GPU)"),
        (None, "confirmed (on a CPU)"),
    ],
)
def test_a_gpus_number_decides_in_place_of_a_cpus(results, planned, judged):
    add_both(results, 80)
    plans = make_plans(results, fp32=100, compile=planned) if planned else {}
    comparisons = ({}, PLANNED) if planned else ({},)
    entry = judge_claim(results, make_claim(*comparisons), plans)
    assert entry.judged == judged
    assert entry.lines[0].value == 0.8, "the CPU's number is shown"


def test_a_plan_within_its_error_is_undecided_whatever_a_cpu_measured(results):
    add_both(results, 80)
    claim = make_claim({}, PLANNED)
    entry = judge_claim(results, claim, make_plans(results, fp32=100, compile=100))
    assert entry.verdict == "undecided"
    assert "on a CPU: 1 confirmed, which do not decide" in entry.qualifier


@pytest.mark.parametrize(
    ("status", "verdict"), [("wrong", "not measured"), ("ok", "confirmed"), ("oom", "confirmed")]
)
def test_a_plan_of_a_step_found_wrong_has_no_verdict(results, status, verdict):
    add_record(results, COMPILED, status=status)
    entry = judge_claim(results, make_claim(PLANNED), make_plans(results, fp32=100, compile=50))
    assert entry.verdict == verdict


def test_a_gpu_is_judged_by_reserved_memory(results):
    for case, reserved, used in ((EAGER, 100, 80), (COMPILED, 70, 20)):
        peaks = {"allocator.in_use": used * MIB, "allocator.reserved": reserved * MIB}
        add_record(results, case, origin={"hardware": GPU}, peaks=peaks)
    (line,) = judge_claim(results, make_claim()).lines
    assert line.number == "-30.0 % reserved; allocated: -75.0 %"


def test_a_gpus_measurement_replaces_the_plan_of_the_same_two_cases(results):
    """The batch does not matter. Other cases are still judged by their plan."""
    planned_checkpoint = PLANNED | {"candidate": "train/checkpoint"}
    at_half_the_batch = {"candidate": "train/compile@-1", "base": "train/fp32@-1"}
    claim = make_claim(PLANNED, planned_checkpoint, at_half_the_batch)
    here = MachineResults(Results(results), "nowhere")
    here.plans = make_plans(results, fp32=100, compile=10, checkpoint=50)
    add_record(results, "transformer/torch/train/fp32/b4/full", 100, origin={"hardware": GPU})
    add_record(results, "transformer/torch/train/compile/b4/full", 130, origin={"hardware": GPU})
    with_a_gpu = MachineResults(Results(results), "m")

    compile_plan, checkpoint_plan, _ = claim.deciding
    planned_lines = [
        make_line(claim, compile_plan, here, "cpu"),
        make_line(claim, checkpoint_plan, here, "cpu"),
    ]
    replaced, planned, measured = add_gpu_lines(claim, planned_lines, [with_a_gpu], "nowhere")

    assert (replaced.value, replaced.decides) == (0.1, False)
    assert (planned.value, planned.decides) == (0.5, True)
    assert (measured.value, measured.decides) == (1.3, True)
    assert measured.name == "transformer/torch b4/full, m"


def test_a_machine_with_a_gpu_is_judged_by_its_own_measurements(results):
    """It lacks the small cases that a CPU measures, which decide where there is no GPU."""
    for strategy, peak in (("fp32", 100), ("amp_fp16", 60)):
        case = f"resnet50/torch/train/{strategy}/b64/full"
        add_record(results, case, peak, origin={"hardware": GPU})
    (entry,) = make_ledger(Results(results), "m", ids=["B1 memory"])
    deciding = [line for line in entry.lines if line.decides]
    assert entry.verdict == "confirmed"
    assert [line.value for line in deciding] == [0.6]
    assert list_machines([entry]) == ["m"]


def test_the_ledger_is_a_data_frame():
    df = framebench.ledger(sample_records.RESULTS, sample_records.MACHINE)
    entries = make_ledger(Results(sample_records.RESULTS), sample_records.MACHINE)
    assert list(df["verdict"]) == [entry.verdict for entry in entries]
    assert {"id", "says", "claimed", "value", "low", "high", "recommendation"} <= set(df.columns)
