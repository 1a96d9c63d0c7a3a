"""The ledger: every claim is there, verdicts follow the records, and the files behind them exist."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from framebench.analysis.lower_bound import lower_bound
from framebench.analysis.results import Results
from framebench.cli.__main__ import app
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.groups import pair
from framebench.features.claims import measure as claim_probes
from framebench.features.claims.arms import SOME
from framebench.features.claims.claim import Registry, UnknownClaim
from framebench.features.claims.ledger import Entry, applies, as_json, ledger, names, wanted
from framebench.features.claims.measures import Nothing, OfProbe, Predicted, Value, quotient
from framebench.features.claims.probed_record import Probed
from framebench.features.claims.registry import REGISTRY
from framebench.features.claims.rule import MEASURED, Verdict
from framebench.features.claims.samples import TIME, bounds
from framebench.features.claims.show import detail, parts, table
from framebench.features.claims.store import Measured
from framebench.records import store
from framebench.records.record import Proof, Rank, Verification
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION
from framebench.suite.selectors import parse
from framebench.suite.strategy import FRAMEWORKS, AlwaysOn
from tests.handmade import blocks, provenance, record

IDS = [f"{source}{n}" for source, last in (("A", 8), ("B", 21), ("C", 15), ("D", 5), ("R", 15)) for n in range(1, last + 1)]
APART = {"B1": "memory result", "B11": "peak states", "B21": "states memory speed", "D5": "speed collector"} | dict.fromkeys(
    ("B2", "B12", "B18", "B19", "D3"), "memory speed"
)
MIB = 2**20


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


# from records


def put(results: Path, case_id: str, peak: float = 100, step: float = 1.0, minute: int = 0, **changes: Any) -> Path:
    """A record of a case with this peak in MiB by an exact counter, in three processes' worth of steady seconds."""
    case, instrument = parse(case_id), changes.pop("instrument", "allocator.in_use")
    version = {"torch": "2.13.0", "jax": "0.10.2", "jittor": "1.3.11.0"}[case.framework]
    peaks = {instrument: int(peak * MIB), "allocator.reserved": int(peak * MIB) * 2}
    origin = provenance(versions={case.framework: changes.pop("version", version)}).model_copy(
        update={"measured_at": provenance().measured_at.replace(minute=minute), **changes.pop("origin", {})}
    )
    fields: dict[str, Any] = {
        "peaks": peaks, "peak_samples": [peaks], "live_bytes": 10 * MIB, "step_s": [step * (1 + 0.001 * i) for i in range(20)],
        "verification": Verification(passed=True, observed={"loss_1": 2.0, "grad_norm": 1.0}),
        "effect": Proof(proven=True, evidence={}), "provenance": origin,
    }  # fmt: skip
    made = record(case, **{**fields, **changes})
    return store.write(made, store.folder(results, "m", f"{case.framework}-{version}", case))


def one(results: Path, claim: str) -> Entry:
    """The claim, or its first part."""
    return ledger(Results(results), "m", "tiny", [claim])[0]


def compiled(results: Path, peak: float) -> Entry:
    put(results, "transformer/torch/train/fp32/b4/tiny", 100)
    put(results, "transformer/torch/train/compile/b4/tiny", peak)
    return one(results, "B19")


def turns(results: Path, change: list[float], noise: float = 0.001) -> Entry:
    """Blocks in which the compiled step takes so many times the other's. Returns the part about speed."""
    for path in results.glob("records/**/*.json"):
        path.unlink()
    cases = [parse(f"transformer/torch/train/{strategy}/b4/tiny") for strategy in ("fp32", "compile")]
    seconds = [[[1 + noise * ((3 * i + b) % 5)] * 8 for b, _ in enumerate(change)] for i in range(2)]
    seconds[1] = [[s * ratio for s in rounds] for ratio, rounds in zip(change, seconds[1])]
    for made in blocks(list(zip(cases, seconds))):
        good = {"effect": Proof(proven=True, evidence={}), "verification": Verification(passed=True)}
        store.write(made.model_copy(update=good), store.folder(results, "m", "torch-1", made.parsed))
    _, found = ledger(Results(results), "m", "tiny", ["B19"])
    return found


@pytest.mark.parametrize(("peak", "verdict"), [(80, "reproduced"), (120, "contradicted"), (100, "no effect worth having")])
def test_directions_are_judged(results: Path, peak: float, verdict: Verdict) -> None:
    assert compiled(results, peak).verdict == verdict


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([0.5] * 5, "reproduced"),
        ([2.0] * 5, "contradicted"),
        ([1.0] * 5, "no effect worth having"),
        ([0.7, 1.4, 0.8, 1.3, 1.0], "undecided"),
        ([0.5], "undecided"),  # nothing tells how blocks differ
    ],
)
def test_times_are_judged_over_blocks(results: Path, ratios: list[float], verdict: Verdict) -> None:
    found = turns(results, ratios)
    assert (found.part, found.verdict) == ("speed", verdict)
    assert found.value == pytest.approx(statistics.geometric_mean(ratios), rel=0.01)
    assert json.loads(json.dumps(as_json(found), allow_nan=False))["low"] == found.low
    assert (found.measured == "no interval") == (len(ratios) == 1)


def test_times_without_a_common_block_have_no_ratio(results: Path) -> None:
    compiled(results, 80)
    _, speed = ledger(Results(results), "m", "tiny", ["B19"])
    assert (speed.verdict, speed.value) == ("not measured", None)
    assert "share no block" in speed.remark
    cases = wanted(REGISTRY.chosen(["B19"]), Measured(Results(results), "m"), "tiny").timed
    assert {c.strategy for c in cases if (c.workload, c.framework) == ("transformer", "torch")} == {"fp32", "compile"}
    turns(results, [0.5] * 3)
    cases = wanted(REGISTRY.chosen(["B19"]), Measured(Results(results), "m"), "tiny").timed
    assert not [c for c in cases if (c.workload, c.framework) == ("transformer", "torch")]


@pytest.mark.parametrize(
    ("peak", "verdict"),
    [(60, "reproduced"), (65, "weaker"), (50, "reproduced"), (20, "stronger"), (100, "no effect worth having")],
)
def test_sizes_are_judged_and_numbers_are_the_records_own(results: Path, peak: float, verdict: Verdict) -> None:
    """C10 claims half. The deciding arms that are there are one workload's two types."""
    put(results, "transformer/torch/eval/no_grad/b4/tiny", 100)
    for strategy in ("fp16", "bf16"):
        put(results, f"transformer/torch/eval/{strategy}/b4/tiny", peak)
    found = one(results, "C10")
    assert found.verdict == verdict
    assert found.value == pytest.approx(peak / 100, abs=1e-6)
    assert found.low <= found.value <= found.high
    assert f"{peak - 100:+.1f} %" in found.measured


def test_a_changed_record_changes_the_verdict(results: Path) -> None:
    assert compiled(results, 80).verdict == "reproduced"
    put(results, "transformer/torch/train/compile/b4/tiny", 120, minute=1, origin={"commit": "d" * 40})
    assert one(results, "B19").verdict == "contradicted"


def test_repeats_of_the_same_code_widen_the_interval(results: Path) -> None:
    narrow = compiled(results, 80)
    put(results, "transformer/torch/train/compile/b4/tiny", 85, 0.5, minute=1)
    wide = one(results, "B19")
    assert (narrow.low, narrow.high) == (narrow.value, narrow.value)
    assert wide.low == pytest.approx(0.8)
    assert wide.high == pytest.approx(0.85)
    assert len(wide.lines[0].records) == 3


def test_resident_memory_has_the_instruments_resolution(results: Path) -> None:
    for strategy, peak in (("fp32", 100), ("compile", 80)):
        put(results, f"transformer/torch/train/{strategy}/b4/tiny", peak, instrument="host.rss")
    found = one(results, "B19")
    eighth = MIB / 8
    assert found.low == pytest.approx((80 * MIB * 0.995 - eighth) / (100 * MIB * 1.005 + eighth))
    assert found.high == pytest.approx((80 * MIB * 1.005 + eighth) / (100 * MIB * 0.995 - eighth))


def test_what_resident_memory_cannot_tell_from_nothing_has_no_ratio() -> None:
    small, large = (bounds([size], "host.rss") for size in (2**16, 2**20))
    with pytest.raises(Nothing, match="may be zero by host"):
        quotient(large, small)
    assert quotient(bounds([2**16], "allocator.in_use"), bounds([2**15], "allocator.in_use")).value == 2


def test_two_instruments_have_no_ratio(results: Path) -> None:
    put(results, "transformer/torch/train/fp32/b4/tiny", instrument="host.rss")
    put(results, "transformer/torch/train/compile/b4/tiny")
    assert "cannot be compared" in one(results, "B19").lines[0].remark


def test_the_pinned_version_counts(results: Path) -> None:
    compiled(results, 80)
    put(results, "transformer/torch/train/compile/b4/tiny", 300, 9.0, minute=5, version="2.9.1")
    assert one(results, "B19").verdict == "reproduced"


def test_the_arms_of_a_ratio_share_a_protocol(results: Path) -> None:
    """The newest that the machine has numbers under."""
    compiled(results, 80)
    base, change = (f"transformer/torch/train/{strategy}/b4/tiny" for strategy in ("fp32", "compile"))
    found = one(results, "B19")
    assert (found.verdict, found.protocol, found.value) == ("reproduced", VERSION, 0.8)
    assert table([found]).data.iloc[0]["metric"].endswith("; transformer b4, size tiny"), "what decides says where"
    put(results, change, 20, minute=5, origin={"protocol": VERSION + 1})
    found = one(results, "B19")
    assert (found.verdict, found.value) == ("not measured", None)
    assert found.command.startswith("framebench claims B19 --run")
    put(results, base, 20, minute=5, origin={"protocol": VERSION + 1})
    found = one(results, "B19")
    assert (found.verdict, found.protocol, found.value) == ("no effect worth having", VERSION + 1, 1.0)
    assert f"Measured under protocol {VERSION + 1}." in table([found]).caption


@pytest.mark.parametrize("status", ["oom", "crashed", "wrong", "timeout"])
def test_a_failed_case_has_no_number_but_its_reason(results: Path, status: Any) -> None:
    put(results, "transformer/torch/train/fp32/b4/tiny")
    put(results, "transformer/torch/train/compile/b4/tiny", status=status, reason="because of this")
    found = one(results, "B19")
    assert (found.verdict, found.value) == ("not measured", None)
    assert f"{status}: because of this" in found.remark


def test_a_strategy_that_was_not_at_work_decides_nothing(results: Path) -> None:
    put(results, "transformer/torch/train/fp32/b4/tiny")
    put(results, "transformer/torch/train/compile/b4/tiny", 50, effect=Proof(proven=False, evidence={}))
    found = one(results, "B19")
    assert found.verdict == "not measured"
    assert "not seen at work" in found.remark


@pytest.mark.parametrize(("nodes", "verdict"), [(0, "contradicted"), (7, "reproduced")])
def test_counts_are_judged(results: Path, nodes: int, verdict: Verdict) -> None:
    evidence = {"graph_nodes": nodes, "saved_tensors": nodes}
    put(results, "transformer/torch/eval/no_grad/b4/tiny", effect=Proof(proven=True, evidence=evidence))
    found = one(results, "C2")
    assert (found.verdict, found.value, found.low, found.high) == (verdict, nodes, nodes, nodes)


def test_shares_are_subtracted_since_one_may_be_zero(results: Path) -> None:
    """B15 claims that less time is waited. One process has no interval; half a per cent less is not worth having."""
    for i, (before, after) in enumerate([(0.3, 0.1), (0.31, 0.11), (0.29, 0.1)]):
        put(results, "resnet50/torch/pipeline/memmap/b4/tiny", shares={"wait": before}, minute=i)
        put(results, "resnet50/torch/pipeline/prefetch/b4/tiny", shares={"wait": after}, minute=i)
        if i == 0:
            assert one(results, "B15").verdict == "undecided"
    assert one(results, "B15").verdict == "reproduced"
    assert one(results, "B15").value == pytest.approx(-0.197, abs=0.001)
    for minute in (10, 11, 12):
        newer = {"minute": minute, "origin": {"commit": "d" * 40}}
        put(results, "resnet50/torch/pipeline/memmap/b4/tiny", shares={"wait": 0.005}, **newer)
        put(results, "resnet50/torch/pipeline/prefetch/b4/tiny", shares={"wait": 0.0}, **newer)
    assert one(results, "B15").verdict == "no effect worth having"


def test_evidence_that_is_no_number_is_none(results: Path) -> None:
    put(results, "transformer/torch/eval/no_grad/b4/tiny", effect=Proof(proven=True, evidence={"graph_nodes": "<b>"}))
    assert one(results, "C2").verdict == "not measured"


@pytest.mark.parametrize(("power", "verdict"), [(1.0, "no effect worth having"), (1.5, "reproduced"), (0.3, "contradicted")])
def test_exponents_are_judged(results: Path, power: float, verdict: Verdict) -> None:
    for batch in (4, 8):
        put(results, f"transformer/torch/eval/no_grad/b{batch}/tiny", 10 * batch**power)
    found = one(results, "C5")
    assert found.verdict == verdict
    assert found.value == pytest.approx(power, abs=1e-3)


def test_a_claim_is_not_judged_by_its_second_metric_alone(results: Path) -> None:
    for strategy, instrument in (("fp32", "host.rss"), ("compile", "allocator.in_use")):
        put(results, f"transformer/torch/train/{strategy}/b4/tiny", instrument=instrument)
    found = one(results, "B19")
    assert found.lines[0].verdict == "not measured"
    assert found.verdict == "not measured"


def test_without_a_gpu_its_claims_say_so(results: Path) -> None:
    put(results, "transformer/torch/train/fp32/b4/tiny")
    for claim in ("A6", "B12", "B14", "C9"):
        assert one(results, claim).verdict == "needs a GPU"


def test_on_a_gpu_its_claims_are_not_measured_yet(results: Path) -> None:
    card = provenance(hardware={"cpu": "x", "device": "NVIDIA H200"})
    case = Case("transformer", "torch", "train", "fp32", 4, "tiny")
    store.write(record(case, provenance=card), store.folder(results, "m", "torch-1", case))
    for claim in ("A6", "B12", "B14", "C9"):
        assert one(results, claim).verdict == "not measured"


@pytest.mark.parametrize("claim", ["A3", "A4", "B7"])
def test_what_is_about_gpus_is_never_decided_by_a_cpu(results: Path, claim: str) -> None:
    """But its numbers are shown."""
    for framework in ("torch", "jittor"):
        put(results, f"unet3d/{framework}/train/fp32/b4/tiny", 200, instrument="host.rss")
    found = one(results, claim)
    assert found.verdict == "needs a GPU"
    assert (found.value is not None) == (claim == "B7")
    assert {line.verdict for line in found.lines if line.decides} == {"needs a GPU"}


@pytest.mark.parametrize("claim", ["A2", "B4", "B5", "B6", "B10", "C14", "D4"])
def test_what_is_true_by_definition_is_not_called_reproduced(results: Path, claim: str) -> None:
    found = one(results, claim)
    assert found.verdict == "by definition"
    assert found.remark
    assert not {line.verdict for line in found.lines if line.decides} & set(MEASURED)


def test_without_records_a_command_is_given(results: Path) -> None:
    found = one(results, "A1")
    assert (found.verdict, found.command) == ("not measured", "framebench claims A1 --run --size tiny")
    assert "{" not in found.recommendation
    assert not found.records


@pytest.mark.parametrize(("status", "command"), [("wrong", ""), ("ok", "framebench claims B8 --run --size tiny")])
def test_what_was_tried_in_vain_is_not_asked_for_again(results: Path, status: str, command: str) -> None:
    for claim in REGISTRY.chosen(["B8"]):
        for case in (case for arm in claim.arms for case in arm.measure.cases("tiny")):
            put(results, case.id, status=status)
    assert one(results, "B8").command == command


# probes


def probe(results: Path, name: str, minute: int = 0, **fields: Any) -> Path:
    origin = provenance().model_copy(update={"measured_at": provenance().measured_at.replace(minute=minute)})
    return store.write(Probed(probe=name, provenance=origin, **fields), claim_probes.folder(results, "m", name))  # type: ignore[arg-type]


@pytest.mark.parametrize(("claim", "name"), [("B13", "set_memory_limit"), ("B16", "VolumeBatchNorm3d"), ("B20", "attention")])
def test_no_such_api_is_what_a_look_up_found(results: Path, claim: str, name: str) -> None:
    assert one(results, claim).verdict == "not measured"
    absent = dict.fromkeys(names(REGISTRY.claims), False)
    path = probe(results, "names", names=absent)
    assert one(results, claim).verdict == "no such API"
    assert one(results, claim).records[-1] == path.relative_to(results).as_posix()
    probe(results, "names", minute=1, names={path: name in path for path in absent})
    assert one(results, claim).verdict != "no such API"


def test_probes_are_judged_like_records(results: Path) -> None:
    grown = {"listed_resident": 256.0, "listed_private": 256.0, "mapped_resident": 260.0, "mapped_private": 1.0}
    counted = {"listed_batches": [32.0] * 5, "mapped_batches": [64.0] * 5}
    probe(results, "inputs", found={name: [mib * MIB] * 5 for name, mib in grown.items()} | counted)
    found = one(results, "C12")
    assert [line.verdict for line in found.lines[:3]] == ["reproduced", "contradicted", "reproduced"]
    assert [line.value for line in found.lines[:3]] == [pytest.approx(r) for r in (1 / 256, 260 / 256, 2.0)]


def test_what_a_collector_and_a_normalisation_are_worth(results: Path) -> None:
    probe(results, "norm3d-torch", found={"plain": [100.0] * 5, "batch_norm": [130.0] * 5})
    assert one(results, "B16").lines[0].value == pytest.approx(1.3)
    grown = {"gc_off_bytes": [100.0] * 5, "gc_every_2_bytes": [90.0] * 5}
    probe(results, "collector-torch", found=grown | {"gc_off_collections": [0.0] * 5, "gc_every_2_collections": [10.0] * 5})
    assert (one(results, "D1").verdict, one(results, "D1").value) == ("reproduced", pytest.approx(0.9))
    ran = {"gc_off_collections": [1.0] * 5, "gc_every_2_collections": [10.0] * 5}
    probe(results, "collector-torch", minute=1, found=grown | ran)
    assert one(results, "D1").verdict == "not measured", "the collector ran where it was off"


@pytest.mark.parametrize(
    ("ratios", "verdict"), [([1.0] * 5, "reproduced"), ([1.2] * 5, "contradicted"), ([0.9, 1.3, 1.0], "undecided")]
)
def test_the_monitor_is_judged_over_processes(results: Path, ratios: list[float], verdict: Verdict) -> None:
    probe(results, "monitor", found={"watched_over_alone": ratios, "seen_over_peak": [0.99] * len(ratios)})
    assert one(results, "C15").verdict == verdict


def test_reports_are_judged_by_their_programs(results: Path) -> None:
    """What the report says, its opposite, and a size; in a table of their own."""
    scans = {"plain": [100.0] * 5, "blocks": [99.0] * 5, "in_a_loop": [10.0] * 5}
    probe(results, "report-jax-27748", found=scans)
    assert one(results, "R2").verdict == "reproduced"
    probe(results, "report-jax-27748", minute=1, found=scans | {"blocks": [20.0] * 5})
    assert one(results, "R2").verdict == "contradicted"
    for minute, ratio, verdict in ((0, 2.2, "reproduced"), (1, 1.3, "weaker"), (2, 3.5, "stronger"), (3, 0.7, "contradicted")):
        probe(
            results,
            "report-torch-193193",
            minute=minute,
            found={"eager": [1.0] * 5, "compiled": [ratio] * 5, "apart": [1.0] * 5},
        )
        assert one(results, "R8").verdict == verdict
    probe(results, "report-torch-163347", found={"found": [4.0] * 5})
    assert one(results, "R12").verdict == "no effect worth having"
    assert [t.title for t in map(table, parts(ledger(Results(results), "m", "tiny")))] == ["Claims", "What users report"]


def test_an_older_probes_result_decides_nothing(results: Path) -> None:
    probe(results, "monitor", found={"alone_s": [1.0], "watched_s": [1.0]})
    assert one(results, "C15").verdict == "not measured"
    assert "watched_over_alone" in one(results, "C15").remark


def test_lost_samples_are_counted_where_memory_ran_out(results: Path) -> None:
    probe(results, "halving-jax", found={"lost": [3.0], "recoveries": [2.0]})
    assert one(results, "C14").value == 3
    probe(results, "halving-jax", minute=2, found={"lost": [0.0], "recoveries": [0.0]})
    assert one(results, "C14").value is None


def test_a_bad_probe_is_named_and_skipped(results: Path) -> None:
    where = claim_probes.folder(results, "m", "names")
    where.mkdir(parents=True)
    (where / "x.json").write_text('{"probe": 1}')
    with pytest.warns(store.RecordWarning, match=r"x\.json: not a framebench record"):
        assert one(results, "B16").verdict == "not measured"


# what is shown


def test_the_table_has_a_row_for_each_claim_and_keeps_its_shape(results: Path) -> None:
    reason = "a | b <script>\n`c`"
    put(results, "transformer/torch/train/fp32/b4/tiny")
    put(results, "transformer/torch/train/compile/b4/tiny", status="crashed", reason=reason)
    made = table(ledger(Results(results), "m", "tiny"))
    assert [row[0] for row in made.rows] == [claim.name for claim in REGISTRY.claims]
    text = made.markdown()
    assert "<script>" not in text
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == len(REGISTRY.claims) + 2
    assert detail(one(results, "B19")).rows


def test_json_has_the_promised_fields(results: Path) -> None:
    compiled(results, 80)
    found = json.loads(json.dumps(as_json(one(results, "B19"))))
    assert {"id", "verdict", "claimed", "measured", "low", "high", "records", "lines"} <= set(found)
    assert (found["id"], found["measured"]) == ("B19", pytest.approx(0.8))
    assert {"id", "verdict", "claimed", "measured", "low", "high", "records"} <= set(found["lines"][0])


def test_missing_cases_are_collected_once(results: Path) -> None:
    put(results, "transformer/torch/train/fp32/b4/tiny")
    found = wanted(REGISTRY.chosen(["B19", "B14", "B16", "C12"]), Measured(Results(results), "m"), "tiny")
    ids = [case.id for case in found.cases]
    assert len(set(ids)) == len(ids)
    assert "transformer/torch/train/compile/b4/tiny" in ids
    assert "transformer/torch/train/fp32/b4/tiny" in ids, "times are taken beside their baseline"
    assert sorted(found.probes) == ["inputs", "names", "norm3d-jittor", "norm3d-torch"]


def test_what_is_compared_in_time_is_measured_in_one_block(results: Path) -> None:
    """With the baseline, which every block of its framework has; or as a pair of its own."""
    put(results, "transformer/torch/train/fp32/b4/tiny")
    found = wanted(REGISTRY.chosen(["B15", "B18", "D5", "C8"]), Measured(Results(results), "m"), "tiny")
    strategies = {tuple(case.strategy for case in pair) for pair in found.pairs}
    assert strategies == {("memmap", "prefetch"), ("whole_every_step", "gc_every_2+reused")}
    assert {"amp_bf16+checkpoint", "fp32"} <= {case.strategy for case in found.timed}
    assert {"lean_rule", "wasteful_rule"} <= {case.strategy for case in found.once}
    groups = [set(found.once), set(found.timed), {case for pair in found.pairs for case in pair}]
    assert not groups[0] & (groups[1] | groups[2])
    together = pair(*found.pairs[0], dict.fromkeys(FRAMEWORKS, Environment("torch", "0", Path("python"))))
    assert [arm.case for arm in together.always] == list(found.pairs[0])


def run(*arguments: str, results: Path) -> Any:
    return CliRunner().invoke(app, ["claims", *arguments, "--results", str(results)])


def test_the_command_prints_json(results: Path) -> None:
    compiled(results, 80)
    found = run("B19", "--json", "--size", "tiny", "--machine", "m", results=results)
    assert found.exit_code == 0
    assert json.loads(found.stdout)[0]["verdict"] == "reproduced"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Z9"], "no claim Z9; claims: "),
        (["--machine", "nowhere"], "machines: m"),
        (["--size", "huge"], "sizes: cpu, full, tiny"),
    ],
)
def test_mistakes_are_answered_by_what_is_valid(results: Path, arguments: list[str], said: str) -> None:
    compiled(results, 80)
    found = run(*arguments, results=results)
    assert found.exit_code == 2
    assert said in re.sub(r"\s+", " ", found.output)


def test_missing_cases_are_measured_as_by_run(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of the harness; the harness itself has tests of its own."""
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "m")
    compiled(results, 80)
    measured: list[Case] = []

    def measure(found: list[Case], *_: Any) -> list[str]:
        measured.extend(found)
        put(results, "transformer/torch/train/width_half/b4/tiny", 50)
        return ["ok"] * len(found)

    from framebench.features.claims import command

    monkeypatch.setattr(command, "measure_all", measure)
    monkeypatch.setattr(command.environments, "ensure", lambda framework, say: None)
    monkeypatch.setattr(command.environments, "warm", lambda *_: None)
    found = run("B5", "A6", "--run", "--size", "tiny", results=results)
    assert found.exit_code == 0, found.output
    ids = [case.id for case in measured]
    assert "resnet50/torch/train/width_half/b4/tiny" in ids
    assert "transformer/torch/train/fp32/b4/tiny" not in ids
    assert not any(runner.unsupported(case) for case in measured), "what needs a GPU is left to a machine that has one"
    assert not list(results.glob(".session*"))


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


def put_ranks(results: Path, strategy: str, states: tuple[int, int], others: int = 100, **changes: Any) -> None:
    """Two ranks of the Transformer that hold so many bytes."""
    ranks = [Rank(rank=i, peaks={}, held={"parameters": others, "optimizer states": n}) for i, n in enumerate(states)]
    framework = "jax" if strategy in ("replicated", "sharded_states") else "torch"
    put(results, f"transformer/{framework}/train/{strategy}/b4x2/tiny", ranks=ranks, **changes)


def test_what_ranks_share_is_judged_by_the_fullest(results: Path) -> None:
    put_ranks(results, "deepspeed_zero0", (200, 200))
    put_ranks(results, "deepspeed_zero1", (100, 100))
    put_ranks(results, "deepspeed_zero3", (100, 60), others=50)
    states, memory, speed = ledger(Results(results), "m", "tiny", ["B21"])
    assert [(arm.cases[1].split("/")[3], arm.value, arm.verdict) for arm in states.lines if arm.value] == [
        ("deepspeed_zero1", 0.5, "reproduced"), ("deepspeed_zero3", 0.5, "reproduced"),
    ]  # fmt: skip
    assert [arm.value for arm in memory.lines if arm.value] == [200 / 300, 150 / 300]
    assert (states.verdict, speed.verdict) == ("reproduced", "not measured")
    put_ranks(results, "zero_optimizer", (200, 0))
    put_ranks(results, "ddp", (200, 200))
    (states, _, _) = ledger(Results(results), "m", "tiny", ["B21"])
    assert states.verdict == "weaker", "one way hands all states to one rank"


def test_one_process_and_the_fullest_of_two_ranks_are_compared_by_one_instrument(results: Path) -> None:
    put(results, "transformer/torch/train/fp32/b4/tiny", 100)
    put_ranks(results, "ddp", (200, 200), peak=70, live_bytes=12 * 2**20)
    put(results, "transformer/jax/train/fp32/b4/tiny", 100)
    put_ranks(results, "replicated", (200, 200), peak=70, instrument="compiler.plan")
    peak, states = ledger(Results(results), "m", "tiny", ["B11"])
    assert [arm.value for arm in peak.lines if arm.decides] == [0.7, None], "JAX's process has no plan of its own"
    assert [arm.verdict for arm in states.lines if arm.value] == ["contradicted", "no effect worth having"]
