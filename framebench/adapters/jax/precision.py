"""How JAX switches on the strategies of `framebench/strategies/precision.toml`, and their proofs.

The proofs rest on the equations that JAX traced (what was requested) and on the executable's (what
the compiler made of it).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from framebench.adapters import rounding
from framebench.adapters.base import Switches
from framebench.adapters.jax.adapter import JaxAdapter, Tree
from framebench.adapters.jax.loss_scale import ScaledState, with_loss_scale
from framebench.adapters.jax.places import list_widened_layers
from framebench.adapters.jax.states import find_state
from framebench.adapters.proof import Evidence, Proof, above, check, expect, none_but, only

switch = Switches()


def measure_errors(adapter: JaxAdapter) -> Evidence:
    """Measure how products are rounded in the precision and by the compiler options of the step."""

    def compile_operator(operator: Callable[[Array, Array], Array]) -> rounding.Multiply:
        """Return a function that compiles an operator as the step's program is, and calls it."""

        def multiply(*operands: np.ndarray) -> np.ndarray:
            with jax.default_matmul_precision(adapter.program.precision):
                compiled = jax.jit(operator).lower(*operands).compile(adapter.program.options)
            return np.asarray(compiled(*operands))

        return multiply

    def convolve(x: Array, w: Array) -> Array:
        return lax.conv(x, w, (1, 1), "VALID")

    return rounding.measure_errors(compile_operator(lax.dot), compile_operator(convolve))


def is_float32(evidence: Evidence) -> bool:
    """Return whether all types that were requested and compiled are float32.

    An eager step has no compiled program.
    """
    dtypes: set[str] = set()
    for counted in ("operands", "compiled_operands", "weight_dtypes", "state_dtypes"):
        dtypes.update(evidence[counted])
    return dtypes == {"float32"}


def expect_float32(adapter: JaxAdapter, errors: Proof) -> Proof:
    """Return a proof that there is nothing but float32, and that products are rounded as expected.

    Args:
        adapter: The adapter of the case.
        errors: A proof on the errors that `rounding.measure_errors` returns.
    """
    proof = check(is_float32, "operands, weights and optimizer states are in float32") & errors
    return proof.counting(lambda: measure_errors(adapter))


def is_requested_in_highest(evidence: Evidence) -> bool:
    """Return whether both operands of each product are requested in the highest precision."""
    return all(precision.count("HIGHEST") == 2 for precision in evidence["precision"])


def is_requested_in_high(evidence: Evidence) -> bool:
    """Return whether both operands of each product are requested in high precision, not higher."""
    return all(p.count("HIGH") == 2 and "HIGHEST" not in p for p in evidence["precision"])


@switch
def fp32(adapter: JaxAdapter) -> Proof:
    """Compute in float32, without TensorFloat-32."""
    requested = check(is_requested_in_highest, "products are asked for in the precision HIGHEST")
    return expect_float32(adapter, requested & rounding.EXACT)


@switch
def tf32(adapter: JaxAdapter) -> Proof:
    """Allow TensorFloat-32, which JAX calls HIGH. Products show whether the device rounds."""
    adapter.recipe.precision = "tensorfloat32"
    requested = check(is_requested_in_high, "products are asked for in the precision HIGH")
    return expect_float32(adapter, requested & rounding.ROUNDED)


@switch
def default(adapter: JaxAdapter) -> Proof:
    """Leave the precision of products at JAX's default.

    If the default does not round, the strategy is the same as `fp32`, and the proof fails.
    """
    adapter.recipe.precision = "default"
    return expect_float32(adapter, rounding.SOME_ROUNDED)


def expect_mixed(adapter: JaxAdapter, dtype: str) -> Proof:
    """Return a proof that the step computes in `dtype`, with float32 weights and states.

    Most operands of the executable must have the type. Not all operands have it, since the
    backward pass of attention computes some products in float32. In a user's model no layer that
    has a `dtype` may make products in float32 in the forward pass. An eager step fails, since it
    has no executable.
    """

    def has_most(evidence: Evidence) -> bool:
        operands = evidence["compiled_operands"]
        return bool(2 * operands.get(dtype, 0) > sum(operands.values()))

    proof = check(has_most, f"most compiled_operands are in {dtype}")
    proof &= expect(weight_dtypes=only("float32"), state_dtypes=none_but("float32"))
    if not adapter.is_user_model:
        return proof
    in_layers = expect(widened_at=[])
    return proof & in_layers.counting(lambda: {"widened_at": list_widened_layers(adapter)})


@switch
def amp_bf16(adapter: JaxAdapter) -> Proof:
    """Compute in bfloat16 with weights in float32."""
    adapter.recipe.model_options["dtype"] = jnp.bfloat16
    adapter.recipe.precision = "default"
    return expect_mixed(adapter, "bfloat16")


def use_float16(adapter: JaxAdapter) -> None:
    """Let a model compute in float16 also on a CPU.

    jax.nn.dot_product_attention requests products of the kind F16_F16_F32, which XLA:CPU does not
    have.
    """
    adapter.recipe.precision = "default"
    if adapter.platform == "cpu" and hasattr(adapter.model_module, "attend_plainly"):
        attend_plainly = adapter.model_module.attend_plainly
        adapter.recipe.model_options.wrap("attend", lambda attend: attend or attend_plainly)


@switch
def amp_fp16(adapter: JaxAdapter) -> Proof:
    """Compute in float16 with weights in float32, and scale the loss.

    With the initial scale the first step of no workload overflows; a skipped step would have no
    gradient to verify.
    """
    adapter.recipe.model_options["dtype"] = jnp.float16
    use_float16(adapter)
    adapter.recipe.wrap("optimizer", lambda inner: with_loss_scale(inner, start=2.0**10))

    def read_scale(state: Tree) -> dict[str, Array]:
        return {"scale": find_state(state, ScaledState).scale}

    adapter.recipe.constants_from_state = read_scale

    def count_steps() -> Evidence:
        scaled = find_state(adapter.optimizer_state, ScaledState)
        return {"scale": float(scaled.scale), "steps_without_overflow": int(scaled.steps)}

    proof = expect_mixed(adapter, "float16") & expect(
        scale=above(1), steps_without_overflow=above(0)
    )
    return proof.counting(count_steps)


@switch
def half(adapter: JaxAdapter, dtype: str) -> Proof:
    """Keep weights and activations in a type of 16 bits."""
    adapter.recipe.dtype = jnp.dtype(dtype)
    adapter.recipe.precision = "default"
    if dtype == "float16":
        use_float16(adapter)
    return expect(compiled_operands=only(dtype), weight_dtypes=only(dtype))
