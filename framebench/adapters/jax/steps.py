"""How JAX switches on the strategies of `framebench/strategies/steps.py`, and what proves that they were on.

What the proofs rest on: the equations that JAX traced (what was asked for) and the executable's (what the compiler made of it).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array, lax
from jax.extend.core import Primitive, primitives

from framebench.adapters.base import Switches
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.checkpoint import scanned
from framebench.adapters.jax.program import PRODUCTS, as_large, equations, products
from framebench.adapters.jax.states import part_of_state
from framebench.adapters.proof import Evidence, Proof, above, at_least, below, check, equal_to, expect
from framebench.suite.trees import leaves

switch = Switches()
LAYOUT = ("NHWC", "HWIO", "NHWC")


@switch
def chunked_loss(run: JaxAdapter, chunks: int) -> Proof:
    run.recipe.model_options["head"] = run.model_module.unprojected

    def loss(unprojected: tuple[nnx.Embed, Array], x: Array, y: Array, constants: Any) -> Array:
        embedding, hidden = unprojected

        @partial(jax.checkpoint, prevent_cse=False)  # which a loop does not need
        def add(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
            h, targets = part
            return total + run.model_module.loss_sum(embedding.attend(h), targets), None

        start = jnp.zeros((), jnp.promote_types(hidden.dtype, jnp.float32))
        parts = hidden.reshape(chunks, -1, hidden.shape[-1]), y.reshape(chunks, -1)
        return lax.scan(add, start, parts)[0] / y.size

    run.recipe.loss = loss

    def count_loops_and_logits(_: Evidence) -> Evidence:
        """Count the loops over chunks, and results as large as the logits, also of a step that ends before the head."""
        without = run.otherwise(loss=lambda unprojected, *_: unprojected[1].sum()).jaxpr
        logits = run.inputs[1].size // run.micro_batches, run.config.vocabulary, run.config.width
        return {
            "as_large_as_the_logits": sum(as_large(jaxpr, *logits) for jaxpr in run.jaxprs()),
            "as_large_without_a_head": as_large(without, *logits),
            "loops": sum(loop.params["length"] == chunks for loop in loops_of(run)),
            "compiled_loops": count_compiled_loops(run),
        }

    def are_compiled(e: Evidence) -> bool:
        return bool(e["compiled_loops"] == 0 or e["compiled_loops"] >= e["loops"])

    proof = expect(
        as_large_as_the_logits=equal_to("as_large_without_a_head"),
        loops=at_least(2),  # of the forward pass and of the backward pass
    )
    proof &= check(are_compiled, "the compiler leaves each of the loops, or the step is eager and has none")
    return proof.counting(count_loops_and_logits)


def loops_of(run: JaxAdapter) -> list[Any]:
    """Return the loops that JAX traced in a step."""
    every = [equation for jaxpr in run.jaxprs() for equation in equations(jaxpr)]
    return [equation for equation in every if equation.primitive.name == "scan"]


def count_compiled_loops(run: JaxAdapter) -> int:
    """Return how many loops the executables have."""
    return sum(c.as_text().count(" while(") for c in run.program.compiled.values())


@switch
def accumulate(run: JaxAdapter) -> Proof:
    """Prove that a step loops over micro-batches."""

    def count_micro_steps(_: Evidence) -> Evidence:
        x = next(a for a in leaves(run.inputs[0]) if a.ndim)
        shape = (run.micro_batches, x.shape[0] // run.micro_batches, *x.shape[1:])
        micro_steps = 0
        for loop in loops_of(run):
            arrays = {(v.aval.shape, v.aval.dtype) for v in loop.invars}
            if (shape, x.dtype) in arrays and loop.params["length"] == run.micro_batches:
                micro_steps += run.micro_batches
        return {
            "micro_steps": micro_steps,
            "micro_batch": list(shape[1:]),
            "compiled_loops": count_compiled_loops(run),
        }

    def is_compiled(e: Evidence) -> bool:
        return bool(e["compiled_loops"] > 0 or run.recipe.eager)

    proof = expect(micro_steps=run.micro_batches) & check(is_compiled, "the executable has a loop")
    return proof.counting(count_micro_steps)


@switch
def multi_steps(run: JaxAdapter) -> Proof:
    """Accumulate gradients by optax, in calls of a smaller step. The optimizer's state counts the updates."""
    run.recipe.calls = run.micro_batches
    width = np.float64 if run.float64 else np.float32

    def accumulate(inner: optax.GradientTransformation) -> optax.GradientTransformation:
        return optax.MultiSteps(inner, run.micro_batches, accumulator_dtype=width).gradient_transformation()

    run.recipe.wrap("optimizer", accumulate)

    def read_updates() -> int:
        return int(part_of_state(run.optimizer_state, optax.MultiStepsState).gradient_step)

    def count_updates(_: Evidence) -> Evidence:
        before = read_updates()
        run.step()
        run.synchronize()
        return {
            "updates": read_updates() - before,
            "compiled_batches": [shape[0] for shape in run.program.compiled],
        }

    def is_compiled_for_parts(e: Evidence) -> bool:
        part = run.case.batch // run.micro_batches
        return bool(e["compiled_batches"] == ([] if run.recipe.eager else [part]))

    proof = expect(updates=1)
    proof &= check(is_compiled_for_parts, "the one program is compiled for a part of the batch")
    return proof.counting(count_updates)


@switch
def scan(run: JaxAdapter) -> Proof:
    """Loop over identical layers."""
    scanned(run)

    def count_loops(_: Evidence) -> Evidence:
        unrolled = run.otherwise(model_options=run.recipe.model_options | {"scan": False})
        return {
            "loops": sum(loop.params["length"] == run.config.layers for loop in loops_of(run)),
            "compiled_loops": count_compiled_loops(run),
            "products_unrolled": len(products(unrolled.jaxpr)),
        }

    proof = expect(
        loops=at_least(2),  # of the forward pass and of the backward pass
        compiled_loops=at_least("loops"),
        products=below("products_unrolled"),
    )
    return proof.counting(count_loops)


@contextmanager
def _count_dispatches() -> Iterator[Counter[str]]:
    """Count the primitives that are executed one by one, by name."""
    dispatch_counts: Counter[str] = Counter()
    all_primitives = [p for p in vars(primitives).values() if isinstance(p, Primitive)]
    before = {p: p.impl for p in all_primitives}

    def counting(primitive: Primitive, *args: Any, **params: Any) -> Any:
        dispatch_counts[primitive.name] += 1
        return before[primitive](*args, **params)

    for p in all_primitives:
        p.impl = partial(counting, p)  # type: ignore[method-assign]
    try:
        yield dispatch_counts
    finally:
        for p in all_primitives:
            p.impl = before[p]  # type: ignore[method-assign]


@switch
def no_jit(run: JaxAdapter) -> Proof:
    """Run operation by operation, without compiling."""
    run.recipe.eager = True

    def count_dispatched(_: Evidence) -> Evidence:
        with _count_dispatches() as dispatch_counts:
            run.one_step()
            run.synchronize()
        return {
            "dispatched": dispatch_counts.total(),
            "dispatched_products": sum(dispatch_counts[name] for name in PRODUCTS),
        }

    proof = expect(compilations=0, products=above(0), dispatched_products=at_least("products"))
    return proof.counting(count_dispatched)


@switch
def sdpa(run: JaxAdapter, backend: str) -> Proof:
    """Compute attention by cuDNN, the only kernel of the table's that JAX can choose."""
    assert backend == "CUDNN_ATTENTION"
    run.recipe.model_options["attend"] = partial(jax.nn.dot_product_attention, is_causal=True, implementation="cudnn")

    def count_calls(_: Evidence) -> Evidence:
        """Count the calls of the library's kernel in the executables."""
        texts = [compiled.as_text() for compiled in run.program.compiled.values()]
        return {"fused_attentions": sum(text.count('custom_call_target="__cudnn$fmha') for text in texts)}

    return expect(fused_attentions=above(0)).counting(count_calls)


def _count_allocations(run: JaxAdapter, channels: int, **options: Any) -> int:
    """Return the allocations on the device while a convolution is compiled by the flags in force and these options.

    What XLA tries out needs buffers. The factor makes a program that no cache has seen; the cache of single results is off.
    """
    factor = random.random()
    x, w = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 40, 40, channels), (3, 3, channels, channels)))
    convolution = jax.jit(lambda x, w: factor * lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=LAYOUT))
    before = run.statistics().get("num_allocs", 0)
    convolution.lower(x, w).compile({"xla_gpu_per_fusion_autotune_cache_dir": "", **options})
    return run.statistics().get("num_allocs", 0) - before


@switch
def autotune_off(run: JaxAdapter) -> Proof:
    """Prove that XLA tries out no kernels. The flag came from the environment, before the import.

    One convolution is compiled by the flags that the step was compiled by, another one is tried out as by default.
    """

    def count_both(_: Evidence) -> Evidence:
        return {
            "allocations_untried": _count_allocations(run, 48),
            "allocations_tried": _count_allocations(run, 56, xla_gpu_autotune_level=4),
        }

    return expect(allocations_tried=above("allocations_untried", times=2)).counting(count_both)


@switch
def rewrite(run: JaxAdapter) -> Proof:
    """Compute 3-D convolutions by 2-D ones."""
    run.recipe.model_options["rewrite"] = True

    def count_convolutions(_: Evidence) -> Evidence:
        asked = [product for jaxpr in run.jaxprs() for product in products(jaxpr)]
        convolutions = [eq for eq in asked if eq.primitive.name == "conv_general_dilated"]
        axes = [f"{len(eq.params['window_strides'])}-D" for eq in convolutions]
        return {"convolutions": dict(Counter(axes))}

    proof = expect({"convolutions.3-D": 0, "convolutions.2-D": above(0)})
    return proof.counting(count_convolutions)
