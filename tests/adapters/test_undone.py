"""Proofs say no where the strategy is undone, and yes where nobody touches it."""

from pathlib import Path

import pytest

from tests.adapters.undone import (
    FP32_ALONE,
    NEITHER,
    TF32_ALONE,
    judge_undone,
    judge_untouched,
    read_table,
)
from tests.marks import rarely
from tests.processes import run_inside

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
TABLES = ("jax", "jittor", "torch", rarely("torch_compiled"))
# nobody undoes these but XLA:CPU
UNDONE_BY_XLA = ("transformer/jax/train/amp_bf16/b4/tiny", "transformer/jax/eval/bf16/b4/tiny")


@pytest.mark.parametrize("table", TABLES)
def test_undone_strategies_are_not_proven(table, environment):
    framework, _, _ = table.partition("_")
    sabotages = read_table(table)["sabotage"]
    proven, refuted = judge_undone(environment[framework], sabotages)
    assert proven == {}
    assert refuted.keys() == {sabotage["name"] for sabotage in sabotages}


def test_strategies_that_xla_undoes_are_not_proven(environment):
    proven, refuted = judge_untouched(environment["jax"], UNDONE_BY_XLA)
    assert proven == {}
    assert refuted.keys() == set(UNDONE_BY_XLA)


@pytest.mark.all_cases
@pytest.mark.parametrize("table", TABLES)
def test_untouched_strategies_are_proven(table, environment):
    framework, _, _ = table.partition("_")
    cases = read_table(table)["untouched"]
    proven, refuted = judge_untouched(environment[framework], cases)
    assert refuted == {}
    assert proven.keys() == set(cases)


def test_rounding_decides_whether_pytorchs_fp32_and_tf32_are_proven(environment):
    """The program says for each set of operators that round which precisions are proven."""
    assert run_inside(environment["torch"], PROGRAMS / "undone_rounding.py") == {
        "": FP32_ALONE,
        "mm": NEITHER,
        "convolution": NEITHER,
        "mm convolution": TF32_ALONE,
    }


def test_precision_is_proven_by_the_devices_rounding_and_storage(environment):
    """By what it rounds, fp32 and tf32 are proven; by what it computes and stores, amp_bf16."""
    assert run_inside(environment["jax"], PROGRAMS / "undone_rounding_xla.py") == {
        "": FP32_ALONE,
        "dot": NEITHER,
        "conv": NEITHER,
        "dot conv": TF32_ALONE,
        "most products in bfloat16": True,
        "few products in bfloat16": False,
        "no products": False,
        "weights in bfloat16": False,
        "states in bfloat16": False,
    }


def test_products_of_libraries_are_counted_in_a_program_for_a_gpu(environment):
    """Products by Triton, cuBLAS and cuDNN are counted. Fused attention, which is several products
    in one call, is not.
    """
    program = (PROGRAMS / "undone_products.hlo").read_text()
    products, operands = run_inside(environment["jax"], PROGRAMS / "undone_products.py", program)  # type: ignore[misc]
    assert products == {"f16": 1, "bf16": 1, "f32": 1}
    assert operands == {"float16": 2, "bfloat16": 4, "float32": 2}
