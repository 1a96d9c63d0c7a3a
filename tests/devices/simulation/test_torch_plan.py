"""What is told of PyTorch's cases on devices that are not here."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from framebench.devices.plans.planned import Origin, Planned
from framebench.engine.environments import Environment
from tests.conftest import asked
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "torch_plans.py"
TRAIN = "transformer/torch/train"
EAGER = (
    "amp_bf16",
    "amp_fp16",
    "checkpoint",
    "accumulate",
    "optimizer_in_backward",
    "adamw_8bit",
    "fused_optimizer",
    "offload",
    "optimizer_offload",
    "expandable_segments",
    "memory_fraction",
)
COMPARED = (
    "fp32",
    "amp_bf16",
    "checkpoint",
    "optimizer_in_backward",
    "adamw_8bit",
    "optimizer_offload",
)
OTHERS = (
    "transformer/torch/eval/no_grad/b4/cpu@a100-40gb",
    "transformer/torch/eval/inference_mode/b4/cpu@a100-40gb",
    "resnet50/torch/train/autotune/b4/tiny@a100-40gb",
    f"{TRAIN}/compile/b4/cpu@a100-40gb",
    f"{TRAIN}/fp32/b512/cpu@rtx4060-8gb",
)


@pytest.fixture(scope="module")
def plans(
    request: pytest.FixtureRequest, environment: dict[str, Environment]
) -> dict[str, Planned]:
    """The records that become of them: nothing is told that a record does not take."""
    strategies = (
        f"{TRAIN}/{strategy}/b4/cpu@a100-40gb" for strategy in sorted({*COMPARED, *asked(request)})
    )
    found = run_inside(environment["torch"], PROGRAM, *strategies, *OTHERS)
    assert isinstance(found, dict)
    return {where.replace("@a100-40gb", ""): kept(where, result) for where, result in found.items()}


def kept(where: str, result: dict[str, Any]) -> Planned:
    case, device = where.split("@")
    versions = result.pop("versions")
    origin = Origin(
        planned_at=datetime.now(UTC),
        command="",
        commit=None,
        dirty=None,
        code="",
        versions=versions,
        wall_s=1.0,
    )
    return Planned(
        case=case,
        device=device,
        framework="torch",
        framework_version=versions["torch"],
        source="allocator.simulated",
        origin=origin,
        **result,
    )


def parts(plans: dict[str, Planned], strategy: str, size: str = "b4/cpu") -> dict[str, int]:
    return plans[f"{TRAIN}/{strategy}/{size}"].parts


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in COMPARED else pytest.mark.all_cases) for name in EAGER],
)
def test_every_eager_strategy_is_planned(name: str, plans: dict[str, Planned]) -> None:
    result = plans[f"{TRAIN}/{name}/b4/cpu"]
    assert result.outcome == "planned"
    assert (
        result.peak_bytes
        == result.parts["reserved"]
        >= result.parts["allocated"]
        > result.parts["between_steps"]
        > 0
    )


@pytest.mark.slow
def test_strategies_change_their_parts_of_the_peak(plans: dict[str, Planned]) -> None:
    """By kind, each against the baseline."""
    base = parts(plans, "fp32")
    assert base["optimizer_states"] == pytest.approx(2 * base["weights"], rel=0.02)
    assert parts(plans, "adamw_8bit")["optimizer_states"] == pytest.approx(
        base["optimizer_states"] / 4, rel=0.05
    )
    assert parts(plans, "optimizer_offload")["optimizer_states"] < base["optimizer_states"] / 50
    assert (
        parts(plans, "optimizer_in_backward")["between_steps"]
        < base["between_steps"] - 0.9 * base["weights"]
    )
    assert parts(plans, "checkpoint")["activations"] < base["activations"] / 2
    planned = {case.split("/")[3] for case in plans}
    if "accumulate" in planned:
        assert parts(plans, "accumulate")["activations"] < base["activations"] / 2
    for strategy in {"amp_bf16", "amp_fp16"} & planned:
        assert parts(plans, strategy)["optimizer_states"] == pytest.approx(
            base["optimizer_states"], rel=0.02
        )
        assert parts(plans, strategy)["activations"] < base["activations"]


@pytest.mark.slow
def test_no_grad_and_inference_mode_have_equal_peaks(plans: dict[str, Planned]) -> None:
    no_grad, inference = (
        plans[f"transformer/torch/eval/{mode}/b4/cpu"].parts
        for mode in ("no_grad", "inference_mode")
    )
    assert no_grad == inference


@pytest.mark.slow
def test_unpredicted_cases_have_a_reason(plans: dict[str, Planned]) -> None:
    compiled, tried = (
        plans[f"{TRAIN}/compile/b4/cpu"],
        plans["resnet50/torch/train/autotune/b4/tiny"],
    )
    assert (compiled.outcome, tried.outcome) == ("not planned", "not planned")
    assert compiled.reason == (
        "only eager execution is simulated: a compiler decides anew what is kept"
    )
    assert "measured on the GPU" in str(tried.reason)


@pytest.mark.slow
def test_a_refused_case_says_how_much_it_needs(plans: dict[str, Planned]) -> None:
    result = plans[f"{TRAIN}/fp32/b512/cpu@rtx4060-8gb"]
    assert result.outcome == "refused"
    assert result.needs_bytes is not None
    assert result.needs_bytes > 11 * 2**30
    assert str(result.reason).startswith(f"does not fit: needs {result.needs_bytes / 2**30:.1f}")
