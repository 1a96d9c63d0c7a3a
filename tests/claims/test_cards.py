"""What a card's records, one block, and changes that reached nothing may decide: on arms made up
here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framebench.analysis.results import Results
from framebench.claims.claim import Measurement
from framebench.claims.ledger import make_entry
from framebench.claims.lines import add_gpu_lines, make_line, stands_for_plan
from framebench.claims.needs import Conditions, Needs
from framebench.claims.plans import Plan
from framebench.claims.remarks import make_informational
from framebench.claims.rows import make_measurements
from framebench.claims.rule import Verdict
from framebench.claims.store import MachineResults
from tests.claims.claim_records import MIB, made_up, one, put


def checkpointed(**fields: str) -> tuple[Measurement, ...]:
    """Return a checkpointed step of PyTorch's Transformer against a plain one."""
    fields = {"candidate": "train/checkpoint", "base": "train/fp32"} | fields
    return make_measurements(
        workloads=("transformer",), frameworks=("torch",), expect="less", **fields
    )


def test_a_measurement_replaces_the_prediction_of_the_same_comparison() -> None:
    planned = checkpointed(kind="planned", quantity="added")
    (same,), (other,) = (checkpointed(quantity=quantity) for quantity in ("added", "peak"))
    assert [stands_for_plan(same.measure, planned, size) for size in ("full", "cpu")] == [
        True,
        False,
    ]
    assert not stands_for_plan(other.measure, planned, "full"), "another quantity"


def test_jax_on_a_gpu_is_judged_by_reserved_memory(results: Path) -> None:
    """As PyTorch is: one quantity for all."""
    card = {"hardware": {"cpu": "x", "device": "NVIDIA H200"}}
    for strategy, reserved, used in (("fp32", 100, 80), ("amp_bf16", 70, 20)):
        peaks = {"allocator.in_use": used * MIB, "allocator.reserved": reserved * MIB}
        put(
            results,
            f"resnet50/jax/train/{strategy}/b64/full",
            origin=card,
            peaks=peaks,
            peak_samples=[peaks],
        )
    (measurement,) = make_measurements(
        candidate="train/amp_bf16",
        base="train/fp32",
        workloads=("resnet50",),
        frameworks=("jax",),
        expect="less",
    )
    found = make_line(
        replace(made_up(), deciding=(measurement,)),
        measurement,
        MachineResults(Results(results), "m"),
        "full",
    )
    assert (found.measured, found.also) == ("-30.0 %", "reserved; allocated: -75.0 %")


def test_torch_on_a_gpu_is_judged_by_reserved_memory(results: Path) -> None:
    card = {"hardware": {"cpu": "x", "device": "NVIDIA H200"}}
    for strategy, reserved, used in (("fp32", 100, 80), ("compile", 70, 20)):
        peaks = {"allocator.in_use": used * MIB, "allocator.reserved": reserved * MIB}
        put(
            results,
            f"transformer/torch/train/{strategy}/b4/tiny",
            origin=card,
            peaks=peaks,
            peak_samples=[peaks],
        )
    (line,) = one(results, made_up()).lines
    assert (line.measured, line.also) == ("-30.0 %", "reserved; allocated: -75.0 %")


def on_the_card(results: Path, change: int) -> MachineResults:
    """One whose two cases, of half the planned batch, were measured on it."""
    card = {"hardware": {"cpu": "x", "device": "NVIDIA H200"}, "commit": f"{change:040d}"}
    for strategy, peak in (("fp32", 100), ("checkpoint", change)):
        put(
            results,
            f"transformer/torch/train/{strategy}/b4/full",
            peak + 10,
            origin=card,
            minute=change // 100,
        )
    return MachineResults(Results(results), "m")


def test_a_gpu_measurement_replaces_the_prediction(results: Path) -> None:
    """Of the same two cases, at whatever batch; of other cases the plan goes on to decide."""
    measured = checkpointed(candidate="train/checkpoint@-1", base="train/fp32@-1", quantity="added")
    plans = checkpointed(kind="planned", quantity="added")
    others = checkpointed(kind="planned", candidate="train/compile", quantity="added")
    claim = replace(made_up(), deciding=(*plans, *others, *measured))
    for change, sign in ((20, "less"), (130, "more")):
        here = MachineResults(Results(results), "nowhere")
        here.plans = {
            f"transformer/torch/train/{strategy}/b8/full": Plan(
                results, "1", 0.01, in_use=peak, peak=peak
            )
            for strategy, peak in (("fp32", 100), ("checkpoint", 10), ("compile", 50))
        }
        own = [make_line(claim, one, here, "cpu") for one in (*plans, *others)]
        lines = add_gpu_lines(claim, own, [on_the_card(results, change)])
        assert [one.decides for one in lines] == [False, True, True]
        assert [one.value for one in lines] == [0.1, 0.5, change / 100]
        assert (lines[2].name, lines[2].sign, lines[2].device) == (
            "transformer/torch b4/full, m",
            sign,
            "gpu",
        )
        result = " ".join(make_informational(lines))
        assert f"On a GPU: transformer/torch b4/full, m: {change - 100:+.1f} %" in result
        assert "Also shown: transformer/torch planned b8/full, h100-80gb: -90.0 %" in result, (
            "nor is the plan withheld"
        )


def test_a_claim_about_one_gpu_needs_that_gpu() -> None:
    needs = Needs(gpu="RTX 3090")
    assert needs.describe_unmet(Conditions(device="gpu", gpu="h100-80gb")) == (
        "needs an RTX 3090: this is h100-80gb"
    )
    assert needs.describe_unmet(Conditions()) == "needs an RTX 3090: this is no GPU"
    assert not needs.describe_unmet(Conditions(device="gpu", gpu="NVIDIA GeForce RTX 3090"))


def plans_of(results: Path, **peaks: int) -> dict[str, Plan]:
    """Plans of the Transformer's training at full size, in bytes, with an error of 1 %."""
    return {
        f"transformer/torch/train/{strategy}/b8/full": Plan(
            results, "1", 0.01, in_use=peak, peak=peak
        )
        for strategy, peak in peaks.items()
    }


@pytest.mark.parametrize(
    ("transfers", "planned", "verdict"),
    [
        (True, 150, "mixed"),  # both count
        (False, 150, "opposite"),
        (False, 50, "confirmed"),
        (False, 100, "undecided"),  # a GPU that cannot tell has spoken too
        (False, None, "confirmed"),  # no GPU has
    ],
)
def test_a_gpu_decides_what_a_cpu_cannot_tell_for_it(
    results: Path, transfers: bool, planned: int | None, verdict: Verdict
) -> None:
    (plan,) = checkpointed(kind="planned")
    (measured,) = checkpointed()
    deciding = (plan, measured) if planned else (measured,)
    claim = replace(made_up(), transfers_to_gpu=transfers, deciding=deciding)
    for strategy, peak in (("fp32", 100), ("checkpoint", 80)):
        put(results, f"transformer/torch/train/{strategy}/b4/tiny", peak)
    here = MachineResults(Results(results), "m")
    here.plans = plans_of(results, fp32=100, checkpoint=planned) if planned else {}
    found = make_entry(claim, here, "tiny")
    assert found.verdict == verdict
    cpu_line = found.lines[-1]
    assert cpu_line.value == 0.8, "the CPU's number is shown"
    assert cpu_line.decides == (transfers or planned is None)


@pytest.mark.parametrize(
    ("status", "verdict"), [("wrong", "not measured"), ("ok", "confirmed"), ("oom", "confirmed")]
)
def test_a_plan_of_a_step_that_was_wrong_wherever_it_ran_has_no_verdict(
    results: Path, status: Any, verdict: Verdict
) -> None:
    claim = replace(made_up(), deciding=checkpointed(kind="planned"))
    put(results, "transformer/torch/train/checkpoint/b4/tiny", status=status)
    here = MachineResults(Results(results), "m")
    here.plans = plans_of(results, fp32=100, checkpoint=50)
    found = make_entry(claim, here, "tiny")
    assert found.verdict == verdict
    assert ("wrong wherever" in found.remark) == (status == "wrong")


def test_one_right_run_lets_a_plan_decide(results: Path) -> None:
    claim = replace(made_up(), deciding=checkpointed(kind="planned"))
    put(results, "transformer/torch/train/checkpoint/b4/tiny", status="wrong")
    put(results, "transformer/torch/train/checkpoint/b8/tiny")
    here = MachineResults(Results(results), "m")
    here.plans = plans_of(results, fp32=100, checkpoint=50)
    assert make_entry(claim, here, "tiny").verdict == "confirmed"
