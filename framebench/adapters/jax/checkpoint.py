"""How JAX switches on the strategies of `framebench/strategies/checkpoint.toml`, and their proofs.

Every block of the model, or every second one, runs under jax.checkpoint.

The proofs count the equations that JAX traced (the request) and the instructions of the executable
(the compiler's answer).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
from flax import nnx
from jax.extend.core import ClosedJaxpr

from framebench.adapters.base import Switches
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.program import (
    REDUCTION,
    count_batched_matmuls,
    count_compiled_products,
    find_products,
    walk_equations,
)
from framebench.adapters.proof import Evidence, Proof, above, at_most, equal_to, expect
from framebench.models.flax_blocks import Run, recompute_nothing

switch = Switches()
DISABLED_PASSES = "xla_disable_hlo_passes"


def checkpoint_blocks(adapter: JaxAdapter, every: int = 1, **options: Any) -> None:
    """Run each `every`-th block under jax.checkpoint, in a loop over layers where that can be.

    `options` are those of `nnx.remat`.
    """
    stacked = every == 1 and can_stack_layers(adapter)

    @cache
    def checkpoint_block(block: Run) -> Run:
        return nnx.remat(block, prevent_cse=not stacked, **options)

    def remat(i: int, block: Run) -> Run:
        if i % every:
            return block
        return checkpoint_block(block)

    adapter.recipe.model_options["remat"] = remat
    if stacked:
        stack_layers(adapter)
    else:
        keep_barriers(adapter)


def stack_layers(adapter: JaxAdapter) -> None:
    """Build identical layers as one, whose program loops over them."""
    adapter.recipe.model_options.wrap("scan", lambda _: True)


def keep_barriers(adapter: JaxAdapter) -> None:
    """Keep XLA:CPU from merging recomputations with the originals, which would save no memory.

    XLA:CPU removes the barriers that jax.checkpoint sets (its pass `cse_barrier_expander`), and
    then merges equal subexpressions. This function disables that pass, so the barriers stay. A loop
    over layers needs no barriers; XLA:GPU was not tried.
    """
    if adapter.platform == "cpu":
        adapter.recipe.compiler_options.wrap(DISABLED_PASSES, lambda _: "cse_barrier_expander")


def can_stack_layers(adapter: JaxAdapter) -> bool:
    """Return whether identical layers can be stacked and looped over.

    Fine-tuning may freeze some of the layers, which one stacked array does not allow. Adafactor
    would take the stack for one weight. A single layer needs no loop.
    """
    if adapter.case.scenario != "train" or adapter.case.optimizer.name == "adafactor":
        return False
    return adapter.workload.identical_layers(adapter.config) > 1


def trace_without_checkpoints(adapter: JaxAdapter) -> Any:
    """Return the step without checkpointing as JAX traces it."""
    return adapter.trace_with(
        model_options=adapter.recipe.model_options | {"remat": recompute_nothing}
    )


@switch
def checkpoint(adapter: JaxAdapter, every: int = 1) -> Proof:
    """Recompute blocks, and prove it by counting products (matmuls and convolutions).

    The step must request more products than one without checkpointing, and the executable must have
    all of them: if the compiler merges a recomputation with the original, the strategy has no
    effect. A product that is also missing from the executable without checkpointing was not merged,
    but replaced by something else, as the outer products of a single sample are.

    Args:
        adapter: The adapter of the case.
        every: 1 checkpoints each block, 2 every second one.
    """
    checkpoint_blocks(adapter, every)

    def count_products(observed: Evidence) -> Evidence:
        """Count the products of a step without checkpointing, and those that XLA merged."""
        plain = trace_without_checkpoints(adapter)
        products_without = len(find_products(plain.jaxpr))
        merged = 0  # products that were requested and are missing from the executable
        if not adapter.recipe.eager:
            merged = observed["products"] - sum(observed["compiled_products"].values())
        if merged > 0:  # products that the plain executable lacks too were not merged
            compiled = plain.lower().compile(dict(adapter.recipe.compiler_options))
            merged -= products_without - count_compiled_products(compiled).total()
        return {"products_without": products_without, "products_merged": merged}

    proof = expect(products=above("products_without"), products_merged=at_most(0))
    return proof.counting_from(count_products)


def count_traced_reductions(*jaxprs: ClosedJaxpr) -> int:
    """Return how many reductions were requested."""
    names = [equation.primitive.name for equation in walk_equations(*jaxprs)]
    return names.count("reduce_sum") + names.count("reduce_max")


@switch
def checkpoint_dots(adapter: JaxAdapter, batched: bool = True) -> Proof:
    """Save products (matmuls and convolutions) and recompute the rest.

    Matmuls with an axis of a batch, as attention's are, are saved only if `batched`.

    The executable has the plain step's products and more reductions, those of the norms.
    (Element-wise operations prove nothing: the compiler repeats them as it likes.)
    """
    policies = jax.checkpoint_policies
    policy = policies.dots_saveable if batched else policies.dots_with_no_batch_dims_saveable
    checkpoint_blocks(adapter, policy=policy)

    def count_products(observed: Evidence) -> Evidence:
        """Count the products and reductions that the step has in addition to a plain step."""
        plain_trace = trace_without_checkpoints(adapter)
        plain_batched_matmuls = count_batched_matmuls(plain_trace.jaxpr)
        if adapter.recipe.eager:  # an eager step runs exactly the traced equations
            products = observed["products"] - len(find_products(plain_trace.jaxpr))
            reductions = count_traced_reductions(*adapter.list_jaxprs())
            plain_reductions = count_traced_reductions(plain_trace.jaxpr)
        else:
            plain_executable = plain_trace.lower().compile(dict(adapter.recipe.compiler_options))
            compiled_products = sum(observed["compiled_products"].values())
            products = compiled_products - count_compiled_products(plain_executable).total()
            reductions = adapter.program.count_text(REDUCTION)
            plain_reductions = plain_executable.as_text().count(REDUCTION)
        return {
            "products_more": products,
            "batched_products_recomputed": adapter.count_batched_matmuls() - plain_batched_matmuls,
            "reductions": reductions,
            "reductions_without": plain_reductions,
        }

    proof = expect(
        products_more=equal_to("batched_products_recomputed"),
        batched_products_recomputed=at_most(0) if batched else above(0),
        reductions=above("reductions_without"),
    )
    return proof.counting_from(count_products)
