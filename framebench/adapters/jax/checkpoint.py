"""How JAX switches on the strategies of `framebench/strategies/checkpoint.py`, and what proves that they were on.

Every block of the model, or every second one, runs under jax.checkpoint.

What the proofs rest on: the equations that JAX traced (what was asked for) and the executable's (what the compiler made of it).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
from flax import nnx
from jax.extend.core import ClosedJaxpr

from framebench.adapters.base import Switches
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.program import compiled_products, equations, products, reductions, with_batch
from framebench.adapters.proof import Evidence, Proof, above, at_most, check, equal_to, expect
from framebench.models.flax_blocks import Run, as_it_is

switch = Switches()
# XLA:CPU drops the barriers that jax.checkpoint sets before it removes common subexpressions, and so merges recomputations
# with the originals; no memory is saved. Without that pass the barriers last. A loop needs none; XLA:GPU was not tried.
PASSES = "xla_disable_hlo_passes"


def recomputed(run: JaxAdapter, every: int, scan: bool, **options: Any) -> set[int]:
    """Run every so many of the model's blocks under jax.checkpoint.

    Return the blocks, filled when the model is traced.
    """
    again = cache(lambda block: nnx.remat(block, prevent_cse=not scan, **options))
    chosen: set[int] = set()

    def remat(i: int, block: Run) -> Run:
        if i % every:
            return block
        chosen.add(i)
        return again(block)

    run.recipe.model_options["remat"] = remat
    if scan:
        scanned(run)
    else:
        keep_barriers(run)
    return chosen


def scanned(run: JaxAdapter) -> None:
    """Build identical layers as one, whose program loops over them."""
    run.recipe.model_options.wrap("scan", lambda _: True)


def keep_barriers(run: JaxAdapter) -> None:
    if run.platform == "cpu":
        run.recipe.compiler_options.wrap(PASSES, lambda _: "cse_barrier_expander")


def _without_remat(run: JaxAdapter) -> dict[str, Any]:
    return run.recipe.model_options | {"remat": as_it_is}


def scannable(run: JaxAdapter) -> bool:
    """Return whether identical layers can be stacked and looped over.

    A frozen half of a stack could not be told from the other, and Adafactor would take the layers of a stack together. XLA
    turns a loop over one layer into the layer.
    """
    several = run.workload.identical_layers(run.config) > 1
    return several and run.case.scenario == "train" and run.case.optimizer.name != "adafactor"


@switch
def checkpoint(run: JaxAdapter, every: int = 1) -> Proof:
    """Recompute blocks, and compare the executable's products with those asked for, and those without checkpointing.

    The compiler may merge a recomputation with the original; the strategy is then off, whatever the program says. It also
    turns a few products into something else (outer ones of a single sample): then the executables are compared.
    """
    chosen = recomputed(run, every, every == 1 and scannable(run))

    def count_products(observed: Evidence) -> Evidence:
        plain = run.otherwise(model_options=_without_remat(run))
        counted: Evidence = {
            "products_without": len(products(plain.jaxpr)),
            "blocks_recomputed": len(chosen),
        }
        if not run.recipe.eager and products_missing(observed) > 0:
            compiled = plain.lower().compile(dict(run.recipe.compiler_options))
            counted["compiled_products_without"] = dict(compiled_products(compiled))
        return counted

    def none_are_merged(e: Evidence) -> bool:
        """Return whether the executable lacks no product but those that it would lack without checkpointing."""
        if run.recipe.eager:
            return True
        missing = products_missing(e)
        if "compiled_products_without" in e:
            missing -= e["products_without"] - sum(e["compiled_products_without"].values())
        return missing <= 0

    proof = expect(products=above("products_without"))
    proof &= check(none_are_merged, "the compiler merges no recomputed product with the original")
    return proof.counting(count_products)


def products_missing(e: Evidence) -> int:
    """Return how many products were asked for that are not in the executable."""
    return int(e["products"] - sum(e["compiled_products"].values()))


def _count_asked_reductions(jaxprs: list[ClosedJaxpr]) -> int:
    return sum(eq.primitive.name in ("reduce_sum", "reduce_max") for q in jaxprs for eq in equations(q))


@switch
def checkpoint_dots(run: JaxAdapter, batched: bool = True) -> Proof:
    """Save products, and recompute the rest: attention, too, if products of `batched` matrices are not saved.

    The executable has the plain step's products and more reductions, those of the norms. (Element-wise operations prove
    nothing: the compiler repeats them as it likes.)
    """
    policies = jax.checkpoint_policies
    policy = policies.dots_saveable if batched else policies.dots_with_no_batch_dims_saveable
    recomputed(run, 1, scannable(run), policy=policy)

    def count_products(observed: Evidence) -> Evidence:
        without = run.otherwise(model_options=_without_remat(run))
        counted: Evidence = {"batched_products_recomputed": with_batch(run.jaxprs()) - with_batch([without.jaxpr])}
        if run.recipe.eager:  # what was asked for is what ran
            counted["reductions"] = _count_asked_reductions(run.jaxprs())
            counted["reductions_without"] = _count_asked_reductions([without.jaxpr])
            counted["products_more"] = observed["products"] - len(products(without.jaxpr))
        else:
            plain = without.lower().compile(dict(run.recipe.compiler_options))
            counted["reductions"] = sum(reductions(c) for c in run.program.compiled.values())
            counted["reductions_without"] = reductions(plain)
            counted["compiled_products_without"] = dict(compiled_products(plain))
            before = sum(counted["compiled_products_without"].values())
            counted["products_more"] = sum(observed["compiled_products"].values()) - before
        return counted

    proof = expect(
        products_more=equal_to("batched_products_recomputed"),
        batched_products_recomputed=at_most(0) if batched else above(0),
        reductions=above("reductions_without"),
    )
    return proof.counting(count_products)
