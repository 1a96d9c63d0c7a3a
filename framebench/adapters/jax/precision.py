"""How JAX switches on the strategies of `suite/catalog/precision.py`, and what proves that they were on. See `base.py`.

What the proofs rest on: the equations that JAX traced (what was asked for) and the executable's (what the compiler made of it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from framebench.adapters import rounding
from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.loss_scale import Scaled, with_loss_scale
from framebench.adapters.jax.states import part_of_state

switch = Switches()


def _errors_of_products(run: JaxAdapter) -> dict[str, float]:
    """Compiled in the precision and by the options of the step."""

    def called(operator: Any) -> rounding.Multiply:
        def multiply(*operands: np.ndarray) -> np.ndarray:
            with jax.default_matmul_precision(run.program.precision):
                compiled = jax.jit(operator).lower(*operands).compile(run.program.options)
            return np.asarray(compiled(*operands))

        return multiply

    return rounding.errors(called(lax.dot), called(lambda x, w: lax.conv(x, w, (1, 1), "VALID")))


def _single(e: Evidence) -> bool:
    """Nothing but float32, as it was asked for and in what the compiler made of it (which leaves nothing of an eager step)."""
    seen = (e["operands"], e["compiled_operands"], e["weight_dtypes"], e["state_dtypes"])
    return set().union(*seen) == {"float32"}


def _of_products(run: JaxAdapter, as_asked: Callable[[Evidence], bool]) -> Proof:
    """Nothing but float32, and products that are rounded as they should be."""

    def proof(e: Evidence) -> bool:
        e |= _errors_of_products(run)
        return _single(e) and as_asked(e)

    return proof


@switch
def fp32(run: JaxAdapter) -> Proof:
    return _of_products(run, lambda e: all(p.count("HIGHEST") == 2 for p in e["precision"]) and rounding.exact(e))


@switch
def tf32(run: JaxAdapter) -> Proof:
    """JAX calls it HIGH. Products show whether the device rounds."""
    run.recipe.precision = "tensorfloat32"

    def high(e: Evidence) -> bool:
        return all(p.count("HIGH") == 2 and "HIGHEST" not in p for p in e["precision"])

    return _of_products(run, lambda e: high(e) and rounding.rounded(e))


@switch
def default(run: JaxAdapter) -> Proof:
    """Where it rounds nothing it is `fp32` once more, and proves nothing."""
    run.recipe.precision = "default"
    return _of_products(run, lambda e: not rounding.exact(e))


def mixed(dtype: str) -> Proof:
    """Most operands of the executable have this type, the backward pass of attention keeping some in float32; weights and
    optimizer states are float32. An eager step leaves no executable to look at."""

    def proof(e: Evidence) -> bool:
        most = 2 * e["compiled_operands"].get(dtype, 0) > sum(e["compiled_operands"].values())
        return most and set(e["weight_dtypes"]) == {"float32"} >= set(e["state_dtypes"])

    return proof


@switch
def amp_bf16(run: JaxAdapter) -> Proof:
    run.recipe.model_options["dtype"] = jnp.bfloat16
    run.recipe.precision = "default"
    return mixed("bfloat16")


def float16(run: JaxAdapter) -> None:
    """jax.nn.dot_product_attention asks for products of the kind F16_F16_F32, which XLA:CPU does not have."""
    run.recipe.precision = "default"
    if run.platform == "cpu" and hasattr(run.model_module, "written_out"):
        run.recipe.model_options.wrap("attend", lambda there: there or run.model_module.written_out)


@switch
def amp_fp16(run: JaxAdapter) -> Proof:
    """The scale starts where the first step overflows in none of the workloads: a step left out would have no gradient."""
    run.recipe.model_options["dtype"] = jnp.float16
    float16(run)
    run.recipe.wrap("optimizer", lambda inner: with_loss_scale(inner, 2.0**10))
    run.recipe.from_state = lambda state: {"scale": part_of_state(state, Scaled).scale}

    def proof(e: Evidence) -> bool:
        scaled = part_of_state(run.optimizer_state, Scaled)
        e["scale"], e["steps_without_overflow"] = float(scaled.scale), int(scaled.steady)
        return mixed("float16")(e) and e["scale"] > 1 and e["steps_without_overflow"] > 0

    return proof


@switch
def half(run: JaxAdapter, dtype: str) -> Proof:
    run.recipe.width = jnp.dtype(dtype)
    run.recipe.precision = "default"
    if dtype == "float16":
        float16(run)
    return lambda e: set(e["compiled_operands"]) == {dtype} == set(e["weight_dtypes"])
