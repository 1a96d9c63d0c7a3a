"""How Jittor switches on the strategies of `framebench/strategies/precision.toml`, with proofs."""

from __future__ import annotations

from collections.abc import Callable

import jittor as jt
import numpy as np
from jittor import Var, nn

from framebench.adapters import rounding
from framebench.adapters.base import Switches
from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.adapters.proof import Evidence, Proof, above, check, expect

switch = Switches()


def measure_errors() -> Evidence:
    """Measure how products are rounded by the flags in force."""

    def take_arrays(operator: Callable[[Var, Var], Var]) -> rounding.Multiply:
        def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return operator(jt.array(a), jt.array(b)).numpy()

        return multiply

    return rounding.measure_errors(take_arrays(jt.matmul), take_arrays(nn.conv2d))


def is_float32(evidence: Evidence) -> bool:
    """Return whether all floating-point variables are in float32."""
    return {dtype for dtype in evidence["variable_dtypes"] if "float" in dtype} == {"float32"}


FLOAT32 = check(
    is_float32,
    "no variable of the graph is in another floating-point type than float32",
)


@switch
def fp32(adapter: JittorAdapter) -> Proof:
    """Compute in float32.

    Newer GPUs may round convolutions to TensorFloat-32 by cuDNN's default, which Jittor does not
    change.
    """
    return (FLOAT32 & rounding.EXACT).counting(measure_errors)


@switch
def tf32(adapter: JittorAdapter) -> Proof:
    """Allow TensorFloat-32.

    For convolutions the flag allows cuDNN float16 as well, which has as many bits.
    """
    jt.flags.use_tensorcore = 1
    return (FLOAT32 & rounding.ROUNDED).counting(measure_errors)


def list_weight_types(adapter: JittorAdapter) -> list[str]:
    """Return the data types of the model's parameters."""
    return sorted({str(p.dtype) for p in adapter.model.parameters()})


@switch
def half(adapter: JittorAdapter, dtype: str) -> Proof:
    """Convert the model to a type of 16 bits.

    Sums are still taken in float32, which no setting but amp_level 6 changes.
    """
    adapter.recipe.dtype = dtype

    def list_types() -> Evidence:
        return {
            "weight_dtypes": list_weight_types(adapter),
            "output_dtype": str(adapter.output.dtype),
        }

    proof = expect(
        {
            "weight_dtypes": [dtype],
            "output_dtype": dtype,
            f"variable_dtypes.{dtype}": above(0),
        }
    )
    return proof.counting(list_types)


# by level: the result of `list_amp_types`
AMP_TYPES = {
    3: ["float16", "float32", "float32"],
    4: ["float32", "float16", "float32"],
    5: ["float32", "float16", "float16"],
    6: ["float16", "float16", "float16"],
}


def list_amp_types() -> list[str]:
    """Return the data types that three results have at the level that is set.

    The results are the exponential of a float16 array, the square of a float32 array made by
    `jt.array`, and that array itself.
    """
    exponential = jt.float16([1, 2]).exp()
    from_outside = jt.array(np.ones(2, np.float32))
    square = from_outside * from_outside
    return [str(result.dtype) for result in (exponential, square, from_outside)]


@switch
def amp_level(adapter: JittorAdapter, level: int) -> Proof:
    """Set Jittor's level of mixed precision, 3 to 6, for the rest of the process.

    - Level 3 changes operations on float16 arrays only.
    - From level 4 on, operations on float32 arrays compute in float16.
    - From level 5 on, arrays made by `jt.array` are float16 too.
    - At level 6, all results are float16.

    AdamW's epsilon, 1e-8, rounds to zero in float16. On a CPU, the backward pass of max pooling
    does not compile in float16.
    """
    jt.flags.amp_level = level

    def list_types() -> Evidence:
        return {"weight_dtypes": list_weight_types(adapter), "types_chosen": list_amp_types()}

    proof = expect(
        {
            "types_chosen": AMP_TYPES[level],
            "variable_dtypes.float16": above(0) if level > 3 else 0,
        }
    )
    return proof.counting(list_types)
