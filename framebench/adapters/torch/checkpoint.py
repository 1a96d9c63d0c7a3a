"""PyTorch's switches for the strategies of `framebench/strategies/checkpoint.py`."""

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
from framebench.adapters.torch.observe import BATCHED_MATMULS, Observed
from framebench.models.spec import USER_MODEL
from framebench.suite.trees import call_with
from framebench.suite.user_file import DoesNotApply

switch = Switches()


def _list_batch_norms(block: nn.Module) -> list[Any]:
    return [m for m in block.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]


def drop_cache(arguments: Any) -> Any:
    """Return a block's arguments without a cache of keys and values.

    A second run would fill the cache once more. transformers passes none either where it
    checkpoints by itself.
    """
    if isinstance(arguments, Mapping):
        kept = {}
        for name, value in arguments.items():
            kept[name] = False if name == "use_cache" else _drop_if_cache(value)
        return kept
    return tuple(_drop_if_cache(value) for value in arguments)


def _drop_if_cache(value: Any) -> Any:
    is_cache = hasattr(value, "get_seq_length") and hasattr(value, "update")
    return None if is_cache else value


def _observe_without(run: TorchAdapter) -> Evidence:
    """Observe a step whose blocks are not recomputed.

    Proofs need it since a user's blocks may run several times in a pass, or for a gradient in it.
    """

    def run_plainly(block: nn.Module, *xs: Any, **named: Any) -> Any:
        return block(*xs, **named)

    model: Any = run.model
    block_runner = model.block_runner
    model.block_runner = run_plainly
    evidence = run.observe()
    model.block_runner = block_runner
    return evidence


@switch
def checkpoint(run: TorchAdapter, every: int = 1) -> Proof:
    """Recompute every block, or every second one and so on."""
    chosen: dict[nn.Module, dict[str, Any]] = {}  # blocks, with the options of `recompute`
    # the compiler repeats no update of running statistics
    is_compiled = any(part.how == "compile" for part in run.case.parts)

    def choose_options(block: nn.Module) -> dict[str, Any]:
        norms = _list_batch_norms(block)
        if is_compiled or not norms:
            return {}
        return {"context_fn": lambda: (nullcontext(), frozen_statistics(norms))}

    def attach(model: Any) -> None:
        for block in run.model_module.blocks_of(model)[::every]:
            chosen[block] = choose_options(block)

    def run_block(block: nn.Module, *xs: Any, **named: Any) -> Any:
        if block not in chosen:
            return block(*xs, **named)
        options = chosen[block] | drop_cache(named)
        return recompute(block, *drop_cache(xs), use_reentrant=False, **options)

    run.recipe.block_runner = run_block
    run.recipe.on_model.append(attach)

    def count_recomputed(observed: Evidence) -> Evidence:
        # a block below every trained weight has nothing to recompute for
        recomputed = [b for b in chosen if any(p.requires_grad for p in b.parameters())]
        counted = {
            "blocks_recomputed": len(recomputed),
            "evaluations_of_the_loss": run.loss_evaluations,
        }
        if run.case.workload == USER_MODEL and "products_recomputed" not in observed:
            counted["block_runs_without"] = _observe_without(run)["block_runs"]
        return counted

    def is_recomputed(evidence: Evidence) -> bool:
        """Return whether a step computes each of the chosen blocks a second time."""
        if "products_recomputed" in evidence:
            # The blocks of a compiled step cannot be counted, its products can. This is a lower
            # bound: a block has one or more, and the loss is evaluated once or more.
            least_products = run.micro_batches * evidence["blocks_recomputed"]
            return bool(evidence["products_recomputed"] >= least_products)
        passes = run.micro_batches * evidence["evaluations_of_the_loss"]
        recomputations = passes * evidence["blocks_recomputed"]
        if "block_runs_without" in evidence:
            # a lower bound too: a user's blocks may run several times in a pass
            least_runs = evidence["block_runs_without"] + recomputations
            return bool(evidence["block_runs"] >= least_runs)
        # the suite's blocks run once in each forward pass, so that their number is exact
        return bool(evidence["block_runs"] == passes * evidence["blocks"] + recomputations)

    proof = expect(blocks_recomputed=above(0))
    twice = check(is_recomputed, "a step computes each of the blocks_recomputed once more")
    return (proof & twice).counting(count_recomputed)


@contextmanager
def _refuse_mutation() -> Iterator[None]:
    """Raise DoesNotApply if a block changes a saved matmul's result while it is recomputed."""
    try:
        yield
    except RuntimeError as error:
        if "has been mutated" not in str(error):
            raise
        raise DoesNotApply(
            "the model changes a product in place, as an activation with inplace=True does right "
            "behind a convolution: saved, it would be changed twice"
        ) from error


@contextmanager
def _recomputing(again: AbstractContextManager[Any], norms: list[nn.Module]) -> Iterator[None]:
    """Run a block a second time, with `again` from PyTorch. Raises DoesNotApply."""
    with _refuse_mutation(), again, frozen_statistics(norms):
        yield


SAVED_MATMULS = ("mm", "addmm", "convolution")


def _count_batched_matmuls(run: TorchAdapter) -> int:
    """Count the matmuls of attention in one forward pass."""
    with torch.no_grad(), run.context(), Observed([], []) as observed:
        call_with(run.model, run.inputs[0])
    return sum(observed.operators[name] for name in BATCHED_MATMULS)


@switch
def checkpoint_dots(run: TorchAdapter, batched: bool = True) -> Proof:
    """Save the results of matmuls, and recompute whatever lies between them.

    Without `batched` those of attention are recomputed too.
    """
    names = SAVED_MATMULS + BATCHED_MATMULS if batched else SAVED_MATMULS
    saved = [getattr(torch.ops.aten, name).default for name in names]

    def make_contexts(block: nn.Module) -> tuple[Any, Any]:
        forward, again = create_selective_checkpoint_contexts(saved)
        return forward, _recomputing(again, _list_batch_norms(block))

    def run_block(block: nn.Module, *xs: Any, **named: Any) -> Any:
        contexts = partial(make_contexts, block)
        options = {"use_reentrant": False, "context_fn": contexts} | drop_cache(named)
        return recompute(block, *drop_cache(xs), **options)

    def count_matmuls(_: Evidence) -> Evidence:
        of_attention = 0
        if not batched:
            of_attention = run.micro_batches * _count_batched_matmuls(run)
        return {
            "products_without": _observe_without(run)["products"],
            "products_of_attention": of_attention,
            "blocks_recomputed": len(run.model_module.blocks_of(run.model)),  # not a teacher's
        }

    def each_block_ran_twice(e: Evidence) -> bool:
        runs = run.micro_batches * (e["blocks"] + e["blocks_recomputed"])
        return bool(e["block_runs"] == runs)

    def matmuls_are_saved(e: Evidence) -> bool:
        repeated = sum(e["products"].values()) - sum(e["products_without"].values())
        return bool(repeated == e["products_of_attention"])

    run.recipe.block_runner = run_block
    proof = check(each_block_ran_twice, "a step computes each of the blocks_recomputed once more")
    proof &= check(matmuls_are_saved, "a step repeats the products_of_attention and no others")
    return proof.counting(count_matmuls)
