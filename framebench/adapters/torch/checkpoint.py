"""How PyTorch switches on the strategies of `framebench/strategies/checkpoint.py`, and what proves that they were on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint as recompute
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from framebench.adapters.base import Switches
from framebench.adapters.batch_norm import frozen_statistics
from framebench.adapters.proof import Evidence, Proof, above, check, expect
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.observe import BATCHED, Observed
from framebench.models.spec import OWN
from framebench.suite.trees import called
from framebench.suite.user_file import DoesNotApply

switch = Switches()


def _batch_norms(block: nn.Module) -> list[Any]:
    return [m for m in block.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]


@contextmanager
def _both(one: AbstractContextManager[Any], other: AbstractContextManager[Any]) -> Iterator[None]:
    with one, other:
        yield


def uncached(given: Any) -> Any:
    """Return a block's arguments without a cache of keys and values, which a second run would fill once more.

    transformers passes none either where it checkpoints by itself.
    """
    if isinstance(given, Mapping):
        return {name: False if name == "use_cache" else uncached((one,))[0] for name, one in given.items()}
    return tuple(None if hasattr(one, "get_seq_length") and hasattr(one, "update") else one for one in given)


def _without(run: TorchAdapter) -> Evidence:
    """Observe a step whose blocks are not recomputed.

    A user's may run several times in a pass, or for a gradient in it.
    """
    model: Any = run.model
    remat, model.remat = model.remat, lambda block, *xs, **named: block(*xs, **named)
    seen = run.observe()
    model.remat = remat
    return seen


@switch
def checkpoint(run: TorchAdapter, every: int = 1) -> Proof:
    chosen: dict[nn.Module, dict[str, Any]] = {}  # with how they are recomputed
    compiled = any(part.how == "compile" for part in run.case.parts)  # the compiler repeats no update of statistics

    def options(block: nn.Module) -> dict[str, Any]:
        if compiled or not _batch_norms(block):
            return {}
        return {"context_fn": lambda: (nullcontext(), frozen_statistics(_batch_norms(block)))}

    def attach(model: Any) -> None:
        chosen.update({block: options(block) for block in run.model_module.blocks_of(model)[::every]})

    def remat(block: nn.Module, *xs: Any, **named: Any) -> Any:
        if block not in chosen:
            return block(*xs, **named)
        return recompute(block, *uncached(xs), use_reentrant=False, **chosen[block], **uncached(named))

    run.recipe.block_runner = remat
    run.recipe.on_model.append(attach)

    def count_recomputed(observed: Evidence) -> Evidence:
        # a block below every trained weight has nothing to recompute for
        recomputed = [b for b in chosen if any(p.requires_grad for p in b.parameters())]
        counted = {"blocks_recomputed": len(recomputed), "evaluations_of_the_loss": run.evaluations}
        if run.case.workload == OWN and "products_recomputed" not in observed:
            counted["block_runs_without"] = _without(run)["block_runs"]
        return counted

    def is_recomputed(e: Evidence) -> bool:
        """Return whether a step computes the chosen blocks once more."""
        if "products_recomputed" in e:  # a compiled step, whose blocks are not seen
            return bool(e["products_recomputed"] >= run.micro_batches * e["blocks_recomputed"])
        passes = run.micro_batches * e["evaluations_of_the_loss"]
        if "block_runs_without" in e:  # a user's blocks may run several times in a pass
            return bool(e["block_runs"] >= e["block_runs_without"] + passes * e["blocks_recomputed"])
        return bool(e["block_runs"] == passes * (e["blocks"] + e["blocks_recomputed"]))

    proof = expect(blocks_recomputed=above(0))
    twice = check(is_recomputed, "a step computes each of the blocks_recomputed once more")
    return (proof & twice).counting(count_recomputed)


@contextmanager
def _unchanged() -> Iterator[None]:
    """Watch a block that runs a second time. Raises DoesNotApply where the model has changed a saved product."""
    try:
        yield
    except RuntimeError as error:
        if "has been mutated" not in str(error):
            raise
        how = "as an activation with inplace=True does right behind a convolution"
        raise DoesNotApply(f"the model changes a product in place, {how}: saved, it would be changed twice") from error


SAVED_PRODUCTS = ("mm", "addmm", "convolution")


def _batched_products(run: TorchAdapter) -> int:
    """Count the products of attention in one forward pass."""
    with torch.no_grad(), run.context(), Observed([], []) as seen:
        called(run.model, run.inputs[0])
    return sum(seen.operators[name] for name in BATCHED)


@switch
def checkpoint_dots(run: TorchAdapter, batched: bool = True) -> Proof:
    """Save products, and recompute whatever lies between them: attention, too, if `batched` ones are not saved."""
    saved = [getattr(torch.ops.aten, name).default for name in SAVED_PRODUCTS + BATCHED * batched]

    def contexts(block: nn.Module) -> tuple[Any, Any]:
        forward, again = create_selective_checkpoint_contexts(saved)
        return forward, _both(_both(_unchanged(), again), frozen_statistics(_batch_norms(block)))

    def remat(block: nn.Module, *xs: Any, **named: Any) -> Any:
        return recompute(block, *uncached(xs), use_reentrant=False, context_fn=partial(contexts, block), **uncached(named))

    def count_products(_: Evidence) -> Evidence:
        return {
            "products_without": _without(run)["products"],
            "products_of_attention": 0 if batched else run.micro_batches * _batched_products(run),
            "blocks_recomputed": len(run.model_module.blocks_of(run.model)),  # not a teacher's
        }

    def each_block_ran_twice(e: Evidence) -> bool:
        return bool(e["block_runs"] == run.micro_batches * (e["blocks"] + e["blocks_recomputed"]))

    def products_are_saved(e: Evidence) -> bool:
        more = sum(e["products"].values()) - sum(e["products_without"].values())
        return bool(more == e["products_of_attention"])

    run.recipe.block_runner = remat
    proof = check(each_block_ran_twice, "a step computes each of the blocks_recomputed once more")
    proof &= check(products_are_saved, "a step repeats the products_of_attention and no others")
    return proof.counting(count_products)
