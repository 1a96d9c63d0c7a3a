"""How Jittor switches on the strategies of `suite/catalog/precision.py`, and what proves that they were on. See `base.py`."""

from __future__ import annotations

from collections.abc import Callable

import jittor as jt
import numpy as np
from jittor import Var, nn

from framebench.adapters import rounding
from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.jittor.adapter import JittorAdapter

switch = Switches()


def _floats(e: Evidence) -> set[str]:
    """The floating-point types that occurred in the graph."""
    return {dtype for dtype in e["variable_dtypes"] if "float" in dtype}


def _errors_of_products() -> dict[str, float]:
    """By the flags in force."""

    def called(operator: Callable[[Var, Var], Var]) -> rounding.Multiply:
        return lambda a, b: operator(jt.array(a), jt.array(b)).numpy()

    return rounding.errors(called(jt.matmul), called(nn.conv2d))


@switch
def fp32(run: JittorAdapter) -> Proof:
    """Newer cards may round convolutions to TensorFloat-32 by cuDNN's default, which Jittor leaves as it is."""

    def proof(e: Evidence) -> bool:
        e |= _errors_of_products()
        return _floats(e) == {"float32"} and rounding.exact(e)

    return proof


@switch
def tf32(run: JittorAdapter) -> Proof:
    """For convolutions the flag allows cuDNN float16 as well, which has as many bits."""
    jt.flags.use_tensorcore = 1

    def proof(e: Evidence) -> bool:
        e |= _errors_of_products()
        return _floats(e) == {"float32"} and rounding.rounded(e)

    return proof


@switch
def half(run: JittorAdapter, dtype: str) -> Proof:
    """Sums are still taken in float32, which no setting but amp_level 6 changes."""
    run.recipe.dtype = dtype

    def proof(e: Evidence) -> bool:
        e["weight_dtypes"] = sorted({str(p.dtype) for p in run.model.parameters()})
        return e["weight_dtypes"] == [dtype] == [str(run.output.dtype)] and dtype in _floats(e)

    return proof


# at each level: the exponential of a float16 number, the square of a float32 array from outside, the array itself
AMP_TYPES = {
    3: ("float16", "float32", "float32"),
    4: ("float32", "float16", "float32"),
    5: ("float32", "float16", "float16"),
    6: ("float16", "float16", "float16"),
}


def _amp_types() -> tuple[str, ...]:
    """The types that Jittor now chooses; without a level the row of AMP_TYPES would be float32 throughout."""
    half, single = jt.float16([1, 2]), jt.array(np.ones(2, np.float32))
    return str(half.exp().dtype), str((single * single).dtype), str(single.dtype)


@switch
def amp_level(run: JittorAdapter, level: int) -> Proof:
    """Set for good, as a user would: level 3 concerns what is float16 already, from 5 on arrays made by `jt.array` are float16
    too. In float16 AdamW's epsilon is zero, and on a CPU the backward pass of max pooling does not compile."""
    jt.flags.amp_level = level

    def proof(e: Evidence) -> bool:
        e["weight_dtypes"] = sorted({str(p.dtype) for p in run.model.parameters()})
        e["types_chosen"] = _amp_types()
        return e["types_chosen"] == AMP_TYPES[level] and ("float16" in _floats(e)) == (level > 3)

    return proof
