"""Find out how much of a step's error comes from sums of gradients in 16 bits.

What is used several times gets a gradient from each use, and these are added up in the type of what
is used: in 16 bits, where it is the result of a layer that computes in them. With k uses the sum
may be off by k roundoffs of the terms' absolute sum (`adapters/torch/sums.py`). Weights are in
float32, and each layer casts them for itself, so that their gradients are added up in float32.

So the steps are repeated with the results of layers in float32, rounded to 16 bits as before. The
layers after them round their inputs anyway. Where other operations compute in float32 then, the
loss is another one, and nothing is found out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.extend.core import ClosedJaxpr, Jaxpr

from framebench.adapters.base import Result
from framebench.adapters.jax.program import list_equations, list_inner_programs, wrap_calls

NARROW = (jnp.bfloat16, jnp.float16)
SUM = "add_any"  # the equation by which JAX adds up gradients


def repeat_with_exact_sums(
    adapter: Any, make_steps: Callable[[], Result]
) -> tuple[Result, int] | None:
    """Repeat steps in mixed precision with sums of gradients in float32.

    Args:
        adapter: The case.
        make_steps: Makes the steps from the first weights on, and returns what is observed.

    Returns:
        What is observed in the steps, and how many gradients of 16 bits a step adds up. None where
        it adds up none, and where layers do not compute in 16 bits.
    """
    dtype = adapter.recipe.model_options.get("dtype", adapter.recipe.dtype)
    if dtype not in NARROW or not adapter.case.scenario_spec.trains:
        return None
    sums = max(map(count_narrow_sums, adapter.list_jaxprs()))
    if not sums:
        return None
    program = adapter.program
    model = adapter.make_abstract(adapter.config, adapter.recipe.training)
    layers = [module for _, module in nnx.iter_modules(model) if hasattr(module, "dtype")]
    with wrap_calls(layers, widen_results):
        adapter.program = adapter.make_program(adapter.graph)
        try:
            return make_steps(), sums + 1
        finally:
            adapter.program = program


def count_narrow_sums(program: Jaxpr | ClosedJaxpr) -> int:
    """Return how often a program adds two gradients of 16 bits.

    The body of a loop counts as often as it runs.
    """
    count = 0
    for equation in list_equations(program):
        if equation.primitive.name == SUM:
            total: Any = equation.outvars[0].aval
            count += total.dtype in NARROW
        for body in list_inner_programs(equation):
            count += equation.params.get("length", 1) * count_narrow_sums(body)
    return count


def widen_results(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a module's `__call__` whose results of 16 bits are in float32."""

    def widen(result: Any) -> Any:
        is_narrow = getattr(result, "dtype", None) in NARROW
        return result.astype(jnp.float32) if is_narrow else result

    def call_and_widen(self: Any, *arguments: Any, **options: Any) -> Any:
        return jax.tree.map(widen, call(self, *arguments, **options))

    return call_and_widen
