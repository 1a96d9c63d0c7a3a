"""How JAX switches on the strategies of `suite/catalog/steps.py`, and what proves that they were on. See `base.py`.

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

from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.checkpoint import scanned
from framebench.adapters.jax.program import PRODUCTS, as_large, equations, products
from framebench.adapters.jax.states import part_of_state
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

    def proof(e: Evidence) -> bool:
        """Beside those of a step that ends before the head."""
        without = run.otherwise(loss=lambda unprojected, *_: unprojected[1].sum()).jaxpr
        loops = [eq for q in run.jaxprs() for eq in equations(q) if eq.primitive.name == "scan"]
        logits = run.inputs[1].size // run.micro, run.config.vocabulary, run.config.width
        e["as_large_as_the_logits"] = sum(as_large(q, *logits) for q in run.jaxprs())
        e["as_large_without_a_head"], e["compiled_loops"] = as_large(without, *logits), compiled_loops(run)
        e["loops"] = sum(eq.params["length"] == chunks for eq in loops)
        return (
            e["as_large_as_the_logits"] == e["as_large_without_a_head"]
            and (e["compiled_loops"] or e["loops"]) >= e["loops"] >= 2
        )

    return proof


def compiled_loops(run: JaxAdapter) -> int:
    return sum(c.as_text().count(" while(") for c in run.program.compiled.values())


@switch
def accumulate(run: JaxAdapter) -> Proof:
    def proof(e: Evidence) -> bool:
        x = next(a for a in leaves(run.inputs[0]) if a.ndim)
        wanted = (run.micro, x.shape[0] // run.micro, *x.shape[1:])
        loops = [eq for q in run.jaxprs() for eq in equations(q) if eq.primitive.name == "scan"]
        of_inputs = [eq for eq in loops if (wanted, x.dtype) in {(v.aval.shape, v.aval.dtype) for v in eq.invars}]
        looped = [eq for eq in of_inputs if eq.params["length"] == run.micro]
        e["micro_steps"], e["micro_batch"] = sum(eq.params["length"] for eq in looped), list(wanted[1:])
        e["compiled_loops"] = compiled_loops(run)
        return e["micro_steps"] == run.micro and (e["compiled_loops"] > 0 or run.recipe.eager)

    return proof


@switch
def multi_steps(run: JaxAdapter) -> Proof:
    """Its state counts the updates."""
    run.recipe.calls = run.micro
    width = np.float64 if run.float64 else np.float32

    def accumulate(inner: optax.GradientTransformation) -> optax.GradientTransformation:
        return optax.MultiSteps(inner, run.micro, accumulator_dtype=width).gradient_transformation()

    run.recipe.wrap("optimizer", accumulate)

    def updates() -> int:
        return int(part_of_state(run.optimizer_state, optax.MultiStepsState).gradient_step)

    def proof(e: Evidence) -> bool:
        before = updates()
        run.step()
        run.synchronize()
        e["updates"] = updates() - before
        e["compiled_batches"] = [shape[0] for shape in run.program.compiled]
        return e["updates"] == 1 and e["compiled_batches"] == ([] if run.recipe.eager else [run.case.batch // run.micro])

    return proof


@switch
def scan(run: JaxAdapter) -> Proof:
    scanned(run)

    def proof(e: Evidence) -> bool:
        loops = [eq for q in run.jaxprs() for eq in equations(q) if eq.primitive.name == "scan"]
        e["loops"] = sum(eq.params["length"] == run.config.layers for eq in loops)
        e["compiled_loops"] = compiled_loops(run)
        e["products_unrolled"] = len(products(run.otherwise(model_options=run.recipe.model_options | {"scan": False}).jaxpr))
        return e["compiled_loops"] >= e["loops"] >= 2 and e["products"] < e["products_unrolled"]  # forward and backward

    return proof


@contextmanager
def _dispatches() -> Iterator[Counter[str]]:
    """Counts the primitives that are executed one by one, by name."""
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
    run.recipe.eager = True

    def proof(e: Evidence) -> bool:
        with _dispatches() as dispatch_counts:
            run.one_step()
            run.synchronize()
        e["dispatched"], e["dispatched_products"] = dispatch_counts.total(), sum(dispatch_counts[name] for name in PRODUCTS)
        return e["compilations"] == 0 and e["dispatched_products"] >= e["products"] > 0

    return proof


@switch
def sdpa(run: JaxAdapter, backend: str) -> Proof:
    """The only one of the table's that JAX can choose; the executable calls the library's kernel."""
    assert backend == "CUDNN_ATTENTION"
    run.recipe.model_options["attend"] = partial(jax.nn.dot_product_attention, is_causal=True, implementation="cudnn")

    def proof(e: Evidence) -> bool:
        e["fused_attentions"] = sum(
            c.as_text().count('custom_call_target="__cudnn$fmha') for c in run.program.compiled.values()
        )
        return e["fused_attentions"] > 0

    return proof


def _allocations(run: JaxAdapter, channels: int, **options: Any) -> int:
    """Of the device's allocator, while a convolution is compiled by the flags in force and these options.

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
    """The flag came from the environment, before the import. The first convolution is compiled by the flags that the step was
    compiled by, the second one is tried out as by default."""

    def proof(e: Evidence) -> bool:
        e["allocations_untried"], e["allocations_tried"] = (
            _allocations(run, 48),
            _allocations(run, 56, xla_gpu_autotune_level=4),
        )
        return e["allocations_tried"] > 2 * e["allocations_untried"]

    return proof


@switch
def rewrite(run: JaxAdapter) -> Proof:
    run.recipe.model_options["rewrite"] = True

    def proof(e: Evidence) -> bool:
        convolutions = [eq for q in run.jaxprs() for eq in products(q) if eq.primitive.name == "conv_general_dilated"]
        ranks = Counter(len(eq.params["window_strides"]) for eq in convolutions)
        e["convolutions"] = {f"{rank}-D": n for rank, n in ranks.items()}
        return ranks[3] == 0 < ranks[2]

    return proof
