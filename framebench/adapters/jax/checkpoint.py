"""How checkpointing is done in JAX: every block of the model, or every second one, under jax.checkpoint; the switches of
`suite/catalog/checkpoint.py`, and what proves that they were on.

What the proofs rest on: the equations that JAX traced (what was asked for) and the executable's (what the compiler made of it).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
from flax import nnx
from jax.extend.core import ClosedJaxpr

from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.program import compiled_products, equations, products, reductions, with_batch
from framebench.models.flax_blocks import Run, as_it_is

switch = Switches()
# XLA:CPU drops the barriers that jax.checkpoint sets before it removes common subexpressions, and so merges recomputations
# with the originals; no memory is saved. Without that pass the barriers last. A loop needs none; XLA:GPU was not tried.
PASSES = "xla_disable_hlo_passes"


def recomputed(run: JaxAdapter, every: int, scan: bool, **options: Any) -> set[int]:
    """Makes the model run every so many of its blocks under jax.checkpoint. Returns the blocks, filled when it is traced."""
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
    """Identical layers as one, whose program loops over them."""
    run.recipe.model_options.wrap("scan", lambda _: True)


def keep_barriers(run: JaxAdapter) -> None:
    if run.platform == "cpu":
        run.recipe.compiler_options.wrap(PASSES, lambda _: "cse_barrier_expander")


def _without_remat(run: JaxAdapter) -> dict[str, Any]:
    return run.recipe.model_options | {"remat": as_it_is}


def scannable(run: JaxAdapter) -> bool:
    """A frozen half of a stack could not be told from the other, and Adafactor would take the layers of a stack together."""
    return run.workload.scan_layers and run.case.scenario == "train" and run.case.optimizer.name != "adafactor"


@switch
def checkpoint(run: JaxAdapter, every: int = 1) -> Proof:
    """Products in the executable against those that were asked for and those of the same step without checkpointing.

    The compiler may merge a recomputation with the original; the strategy is then off, whatever the program says. It also
    turns a few products into something else (outer ones of a single sample): then the executables are compared.
    """
    chosen = recomputed(run, every, every == 1 and scannable(run))

    def proof(e: Evidence) -> bool:
        plain = run.otherwise(model_options=_without_remat(run))
        e["products_without"], e["blocks_recomputed"] = len(products(plain.jaxpr)), len(chosen)
        again = e["products"] - e["products_without"]
        missing = 0 if run.recipe.eager else e["products"] - sum(e["compiled_products"].values())
        if missing > 0:
            e["compiled_products_without"] = dict(compiled_products(plain.lower().compile(dict(run.recipe.compiler_options))))
            missing -= e["products_without"] - sum(e["compiled_products_without"].values())
        return missing <= 0 < again

    return proof


def _asked_reductions(jaxprs: list[ClosedJaxpr]) -> int:
    return sum(eq.primitive.name in ("reduce_sum", "reduce_max") for q in jaxprs for eq in equations(q))


@switch
def checkpoint_dots(run: JaxAdapter, batched: bool = True) -> Proof:
    """No product is computed again, but for those of attention if `batched` ones are not saved. The rest is: the executable has
    the plain step's products and more reductions, those of the norms. (Element-wise operations prove nothing: the compiler
    repeats them as it likes.)"""
    policies = jax.checkpoint_policies
    recomputed(run, 1, scannable(run), policy=policies.dots_saveable if batched else policies.dots_with_no_batch_dims_saveable)

    def proof(e: Evidence) -> bool:
        without = run.otherwise(model_options=_without_remat(run))
        asked = e["batched_products_recomputed"] = with_batch(run.jaxprs()) - with_batch([without.jaxpr])
        if run.recipe.eager:  # what was asked for is what ran
            e["reductions"], e["reductions_without"] = map(_asked_reductions, (run.jaxprs(), [without.jaxpr]))
            more = e["products"] - len(products(without.jaxpr))
        else:
            plain = without.lower().compile(dict(run.recipe.compiler_options))
            e["reductions"] = sum(reductions(c) for c in run.program.compiled.values())
            e["reductions_without"], e["compiled_products_without"] = reductions(plain), dict(compiled_products(plain))
            more = sum(e["compiled_products"].values()) - sum(e["compiled_products_without"].values())
        return more == asked and (asked > 0) != batched and e["reductions"] > e["reductions_without"]

    return proof
