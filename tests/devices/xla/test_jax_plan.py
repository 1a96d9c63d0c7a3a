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
    """Return the environment with XLA's compiler for GPUs."""
    try:
        return environments.ensure("jax", package="jax-cuda")
    except SetupError as error:
        pytest.skip(f"XLA's compiler cannot be installed here: {str(error).splitlines()[-1]}")


def plan_places(compiler: Environment, *places: str) -> list[dict[str, Any]]:
    """Return the answer for each CASE@DEVICE."""
    variables = {"JAX_PLATFORMS": "cpu"}
    return run_inside(compiler, PROGRAMS / "plans.py", *places, variables=variables)


@pytest.mark.slow
def test_the_largest_buffers_of_a_plan_have_their_lines(compiler):
    (plan,) = plan_places(compiler, f"{TRAIN.format('fp32')}@{H100}")
    lines = {buffer["line"] for buffer in plan["largest"]}
    assert {"argument params", "argument state"} <= lines
    assert any("flax_model.py:" in line for line in lines)
    sizes = [buffer["bytes"] for buffer in plan["largest"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) <= plan["peak_bytes"]


@pytest.mark.slow
def test_kernels_that_are_not_compiled_change_no_byte_of_a_plan(compiler):
    places = []
    for case in (
        TRAIN.format("fp32"),
        TRAIN.format("amp_bf16+checkpoint"),
        "resnet50/jax/train/amp_fp16/b4/tiny",
        "unet3d/jax/train/fp32/b2/tiny",
    ):
        places += [f"{case}@{H100}", f"{case}@a100-40gb"]
    variables = {"JAX_PLATFORMS": "cpu"}
    plans = run_inside(compiler, PROGRAMS / "assemblers.py", *places, variables=variables)
    assert list(plans) == places
    for without_kernels, with_kernels in plans.values():
        assert without_kernels == with_kernels


@pytest.mark.all_cases
@pytest.mark.slow
def test_the_device_decides_the_plan(compiler):
    """XLA computes values again where memory is short; and a V100 has no matmuls in bfloat16."""
    case = TRAIN.format("fp32")
    half = "transformer/jax/eval/amp_bf16/b4/tiny@v100-16gb"
    large, small, without = plan_places(compiler, f"{case}@{H100}", f"{case}@{H100}@300000", half)
    assert large["parts"]["arguments"] == small["parts"]["arguments"]
    assert small["peak_bytes"] < large["peak_bytes"]
    assert any("values again to stay within" in note for note in small["notes"])
    assert without["outcome"] == "not planned"
    assert "BF16" in without["reason"]


@pytest.mark.slow
def test_shapes_for_which_triton_has_no_tiles_are_planned(compiler):
    """They are common: a vision transformer cuts 224 px into 196 patches."""
    variables = {"JAX_PLATFORMS": "cpu"}
    answer = run_inside(compiler, PROGRAMS / "untiled.py", variables=variables)
    assert answer["peak"] >= 2 * answer["arguments"]  # and a gradient of each


@pytest.mark.slow
def test_jax_cases_that_cannot_be_planned_have_a_reason(compiler):
    cases = [TRAIN.format(name) for name in ("no_jit", "pool_off", "sdpa_cudnn")]
    cases.append("transformer/jax/generate/static_cache/b4/tiny")
    answers = plan_places(compiler, *(f"{case}@{H100}" for case in cases))
    assert len(answers) == len(cases)
    for answer in answers:
        assert answer["outcome"] == "not planned"
        assert len(answer["reason"]) > 20


ERRORS = {
    "Ran out of memory in memory space hbm. Used 20.50G of 15.75G hbm.": (
        "refused",
        int(20.5 * 2**30),
        "the plan has 20.50 GiB at compile time, of 15.75 GiB",
    ),
    "RESOURCE_EXHAUSTED: Allocation (size=85899345920) would exceed memory (size=17179869184)": (
        "refused",
        80 * 2**30,
        "one buffer alone has 80.00 GiB at compile time, of 16.00 GiB",
    ),
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.": (
        "refused",
        None,
        "XLA refuses for want of memory",
    ),
    # memory on the chip, which one kernel needs: no smaller batch need help
    "RESOURCE_EXHAUSTED: Allocation (size=134217728) would exceed memory (size=67108864) :: "
    "#allocation25 [shape = 'u8[134217728]{0}', space=vmem, size = 0x8000000]": (
        "not planned",
        None,
        "XLA cannot compile it for this device: RESOURCE_EXHAUSTED: Allocation",
    ),
    "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space vmem. "
    "Used 32.42M of 16.00M vmem. Exceeded vmem capacity by 16.42M": (
        "not planned",
        None,
        "XLA cannot compile it for this device: RESOURCE_EXHAUSTED: XLA:TPU compile",
    ),
    "RESOURCE_EXHAUSTED: Shared memory size limit exceeded.": (
        "not planned",
        None,
        "XLA cannot compile it for this device: RESOURCE_EXHAUSTED: Shared memory",
    ),
    "RESOURCE_EXHAUSTED: Too many open files": ("failed", None, "RESOURCE_EXHAUSTED: Too many"),
    "UNIMPLEMENTED: Unsupported algorithm ALG_DOT_BF16_BF16_F32": (
        "not planned",
        None,
        "XLA cannot compile it for this device: Unsupported algorithm ALG_DOT_BF16_BF16_F32",
    ),
    "INTERNAL: y": ("failed", None, "INTERNAL: y"),
}


def test_xla_errors_are_classified():
    answers = run_inside(environments.ensure("jax"), PROGRAMS / "refusals.py", *ERRORS)
    for answer, (outcome, needs_bytes, reason) in zip(answers, ERRORS.values(), strict=True):
        assert (answer["outcome"], answer["needs_bytes"]) == (outcome, needs_bytes)
        assert answer["reason"].startswith(reason)


@pytest.mark.slow
def test_shapes_alone_give_the_plan_of_real_arrays():
    """They are compared on the CPU, where both can be had."""
    cases = [TRAIN.format(name) for name in ("checkpoint", "multi_steps")]
    plans = run_inside(environments.ensure("jax"), PROGRAMS / "shaped_plans.py", *cases)
    assert list(plans) == cases
    for case, (real, shaped) in plans.items():
        assert real == shaped, case
        assert shaped > 0, case
