"""XLA's plans for GPUs that are not here, and what shapes alone tell of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.engine import environments
from framebench.engine.environments import Environment, SetupError
from tests.processes import run_inside

PROGRAMS = Path(__file__).parent / "programs"
H100 = "h100-80gb"
TRAIN = "transformer/jax/train/{}/b4/tiny"


@pytest.fixture(scope="module")
def compiler() -> Environment:
    """The environment with XLA's compiler for GPUs."""
    try:
        return environments.ensure("jax", package="jax-cuda")
    except SetupError as error:
        pytest.skip(
            f"XLA's compiler for GPUs cannot be installed here: {str(error).splitlines()[-1]}"
        )


def plans(compiler: Environment, *asked: str) -> dict[str, Any]:
    found = run_inside(compiler, PROGRAMS / "plans.py", *asked, variables={"JAX_PLATFORMS": "cpu"})
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
def test_a_plan_is_made_of_its_parts_and_the_strategy_is_in_it(compiler: Environment) -> None:
    kept, donated = f"{TRAIN.format('no_donate')}@{H100}", f"{TRAIN.format('fp32')}@{H100}"
    found = plans(compiler, kept, donated)
    for result in found.values():
        parts = result["parts"]
        assert (
            result["peak_bytes"]
            == parts["arguments"] + parts["outputs"] + parts["temporaries"] - parts["aliased"]
            > 0
        )
    assert found[kept]["parts"]["aliased"] == 0 < found[donated]["parts"]["aliased"]
    assert found[donated]["peak_bytes"] < found[kept]["peak_bytes"]
    largest = found[donated]["largest"]
    assert any("flax_model.py:" in one["line"] for one in largest)
    assert {"argument params", "argument state"} <= {one["line"] for one in largest}
    assert sum(one["bytes"] for one in largest) <= found[donated]["peak_bytes"]
    assert [one["bytes"] for one in largest] == sorted(
        (one["bytes"] for one in largest), reverse=True
    )


@pytest.mark.all_cases
@pytest.mark.slow
def test_the_device_decides_the_plan(compiler: Environment) -> None:
    """XLA computes values again where memory is short; and a V100 has no products in bfloat16."""
    case = TRAIN.format("fp32")
    amp = "transformer/jax/eval/amp_bf16/b4/tiny"
    large, small, without = plans(
        compiler, f"{case}@{H100}", f"{case}@{H100}:300000", f"{amp}@v100-16gb"
    ).values()
    assert large["parts"]["arguments"] == small["parts"]["arguments"]
    assert small["peak_bytes"] < large["peak_bytes"]
    assert any("values again to stay within" in note for note in small["notes"])
    assert not large["notes"]
    assert without["outcome"] == "not planned"
    assert "BF16" in without["reason"]


@pytest.mark.slow
def test_jax_cases_that_cannot_be_planned_have_a_reason(compiler: Environment) -> None:
    asked = [f"{TRAIN.format(name)}@{H100}" for name in ("no_jit", "pool_off", "sdpa_cudnn")]
    asked.append(f"transformer/jax/generate/static_cache/b4/tiny@{H100}")
    for result in plans(compiler, *asked).values():
        assert result["outcome"] == "not planned"
        assert len(result["reason"]) > 20


OUT_OF_MEMORY = (
    "Ran out of memory in memory space hbm. Used 20.50G of 15.75G hbm. Exceeded hbm capacity by "
    "4.75G."
)
TOO_LARGE_BUFFER = (
    "RESOURCE_EXHAUSTED: Allocation (size=85899345920) would exceed memory (size=17179869184) "
    ":: %s2"
)
UNSUPPORTED = "UNIMPLEMENTED: Unsupported algorithm on the current device(s): ALG_DOT_BF16_BF16_F32"
NO_SIZE = "RESOURCE_EXHAUSTED: x"
INTERNAL = "INTERNAL: y"
XLA_ERRORS = (OUT_OF_MEMORY, TOO_LARGE_BUFFER, NO_SIZE, UNSUPPORTED, INTERNAL)


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    """Return the answer to each of XLA_ERRORS, by the error's message."""
    printed = run_inside(environments.ensure("jax"), PROGRAMS / "refusals.py", *XLA_ERRORS)
    assert isinstance(printed, list)
    return dict(zip(XLA_ERRORS, printed, strict=True))


@pytest.mark.parametrize(
    ("message", "outcome", "needs_bytes"),
    [
        pytest.param(OUT_OF_MEMORY, "refused", int(20.5 * 2**30), id="out of memory"),
        pytest.param(TOO_LARGE_BUFFER, "refused", 80 * 2**30, id="one buffer is too large"),
        pytest.param(NO_SIZE, "refused", None, id="out of memory without a size"),
        pytest.param(UNSUPPORTED, "not planned", None, id="unsupported by the device"),
        pytest.param(INTERNAL, "failed", None, id="any other error"),
    ],
)
def test_xla_errors_are_classified(
    message: str, outcome: str, needs_bytes: int | None, answers: dict[str, dict[str, Any]]
) -> None:
    assert answers[message]["outcome"] == outcome
    assert answers[message]["needs_bytes"] == needs_bytes


def test_a_refusal_states_what_is_needed_and_what_there_is(
    answers: dict[str, dict[str, Any]],
) -> None:
    reason = answers[OUT_OF_MEMORY]["reason"]

    assert reason == "needs 20.50 GiB at compile time, of 15.75 GiB"


@pytest.mark.slow
def test_shapes_alone_give_the_plan_of_real_arrays() -> None:
    """On the CPU, where both can be had."""
    cases = [TRAIN.format(name) for name in ("checkpoint", "multi_steps")]
    found = run_inside(environments.ensure("jax"), PROGRAMS / "shaped_plans.py", *cases)
    assert isinstance(found, dict)
    for case, read in found.items():
        assert read["real"][0] == read["shaped"][0] > 0, case
