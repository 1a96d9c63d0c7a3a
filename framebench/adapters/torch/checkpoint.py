"""PyTorch's switches for the strategies of `framebench/strategies/checkpoint.toml`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recompute
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from framebench.adapters.base import Switches
from framebench.adapters.proof import Evidence, Proof, above, at_least, equal_to, expect
from framebench.adapters.replacing import freeze_statistics, replace_attributes
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.modes import WidenedCasts
from framebench.adapters.torch.observe import BATCHED_MATMULS, StepCounter
from framebench.suite.trees import call_with
from framebench.suite.user_file import DoesNotApply

switch = Switches()
SAVED_MATMULS = ("mm", "addmm", "convolution")


def _list_batch_norms(block: nn.Module) -> list[Any]:
    return [m for m in block.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]


def drop_cache(arguments: Any) -> Any:
    """Return a block's arguments without a cache of keys and values.

    A second run would fill the cache a second time. transformers passes no cache either where it
    checkpoints by itself.
    """
    if isinstance(arguments, Mapping):
        keywords = dict(zip(arguments, drop_cache(arguments.values())))
        return keywords | {"use_cache": False} if "use_cache" in keywords else keywords
    values = []
    for value in arguments:
        is_cache = hasattr(value, "get_seq_length") and hasattr(value, "update")
        values.append(None if is_cache else value)
    return values


@contextmanager
def prepare_second_run(norms: list[Any], in_float64: bool) -> Iterator[None]:
    """Freeze the running statistics of these batch norms while their block is recomputed.

    During a backward pass PyTorch leaves the context that widens casts, so it is entered again if
    the step is in float64.
    """
    with freeze_statistics(norms), WidenedCasts() if in_float64 else nullcontext():
        yield


class RepeatedContext(AbstractContextManager[None]):
    """Context that can be entered several times, each time as a new one.

    PyTorch enters the context of a block's second run for each backward pass through the block, and
    a penalty on a gradient makes two.
    """

    def __init__(self, make_context: Callable[[], AbstractContextManager[Any]]) -> None:
        """Keep the function that makes the context."""
        self.make_context = make_context
        self.entered: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> None:
        context = self.make_context()
        context.__enter__()
        self.entered.append(context)

    def __exit__(self, *error: Any) -> bool | None:
        return self.entered.pop().__exit__(*error)


def share_arguments(block: nn.Module, arguments: list[Any]) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function that runs a block, and its arguments, each object once.

    Recomputation makes another tensor of each argument. Attention takes another way if key and
    value are no longer one object.
    """
    distinct = list({id(argument): argument for argument in arguments}.values())
    if len(distinct) == len(arguments):
        return block, arguments
    places_by_id = {id(argument): place for place, argument in enumerate(distinct)}
    places = [places_by_id[id(argument)] for argument in arguments]

    def run_block(*distinct_arguments: Any, **kwargs: Any) -> Any:
        return block(*[distinct_arguments[place] for place in places], **kwargs)

    return run_block, distinct


def _observe_without_recomputation(adapter: TorchAdapter) -> tuple[Evidence, Counter[nn.Module]]:
    """Return the evidence of a step without recomputation, and how often each block runs in it.

    Proofs compare with this step, since a user's block may run several times in a forward pass, or
    not at all if the model drops layers at random. The step has the seed of the observed one, so
    that it drops the same layers.
    """
    runs: Counter[nn.Module] = Counter()

    def run_plainly(block: nn.Module, *xs: Any, **kwargs: Any) -> Any:
        runs[block] += 1
        return block(*xs, **kwargs)

    with replace_attributes(adapter.model, block_runner=run_plainly):
        adapter.seed()
        return adapter.observe(), runs


def _count_expected_recomputations(
    adapter: TorchAdapter, runs: Counter[nn.Module], blocks: list[nn.Module]
) -> int:
    """Return the least number of recomputations: one for each pass in which a block runs."""
    passes = adapter.micro_batches * adapter.loss_evaluations
    return sum(min(runs[block], passes) for block in blocks)


def run_recomputed(block: nn.Module, args: Any, kwargs: Any, **options: Any) -> Any:
    """Run a block whose activations the backward pass recomputes, with PyTorch's options for it.

    Raises DoesNotApply within a transform of `torch.func`, as PyTorch cannot recompute there.
    """
    run_block: Callable[..., Any] = block
    arguments = drop_cache(args)
    if not torch.compiler.is_compiling():  # a compiler cannot follow `id`
        if torch._C._functorch.peek_interpreter_stack() is not None:
            raise DoesNotApply(
                "the blocks run within a transform of torch.func, where PyTorch recomputes nothing"
            )
        run_block, arguments = share_arguments(block, arguments)
    return recompute(run_block, *arguments, use_reentrant=False, **options, **drop_cache(kwargs))


def refuse_changed_inputs(adapter: TorchAdapter) -> None:
    """Let the backward pass raise DoesNotApply if a block changes its input in place."""
    run_backward = adapter.recipe.backward

    def backward(loss: Tensor) -> None:
        try:
            run_backward(loss)
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            raise DoesNotApply(
                "a block changes its input in place, as one does that begins with "
                "nn.ReLU(inplace=True): recomputed, it would change it twice, which PyTorch "
                "refuses; without inplace=True there it is recomputed"
            ) from error

    adapter.recipe.backward = backward


@switch
def checkpoint(adapter: TorchAdapter, every: int = 1) -> Proof:
    """Recompute the activations of each `every`-th block in the backward pass."""
    # the batch norms of each block that is recomputed
    norms_by_block: dict[nn.Module, list[Any]] = {}
    is_compiled = adapter.case.strategy_spec.compiles

    def attach(model: Any) -> None:
        for block in adapter.model_module.blocks_of(model)[::every]:
            norms_by_block[block] = _list_batch_norms(block)

    def run_block(block: nn.Module, *xs: Any, **kwargs: Any) -> Any:
        """Run a block, which the backward pass recomputes if it is one of `norms_by_block`."""
        if block not in norms_by_block:
            return block(*xs, **kwargs)
        options: dict[str, Any] = {}
        norms = norms_by_block[block]
        # a compiler repeats neither updates of running statistics nor casts
        if not is_compiled and (norms or adapter.float64):
            second_run = partial(prepare_second_run, norms, in_float64=adapter.float64)
            options["context_fn"] = lambda: (nullcontext(), RepeatedContext(second_run))
        return run_recomputed(block, xs, kwargs, **options)

    adapter.recipe.block_runner = run_block
    adapter.recipe.on_model.append(attach)
    refuse_changed_inputs(adapter)

    def count_recomputed(observed: Evidence) -> Evidence:
        """Count the blocks that ran again in the backward pass, and how many should have."""
        # without trained weights a block is not recomputed
        recomputed = [b for b in norms_by_block if any(p.requires_grad for p in b.parameters())]
        if observed["block_runs"] is None:  # a compiled step shows only its products
            repeated = observed["products_recomputed"]
            expected = adapter.micro_batches * adapter.loss_evaluations * len(recomputed)
        else:
            without, runs = _observe_without_recomputation(adapter)
            repeated = observed["block_runs"] - without["block_runs"]
            expected = _count_expected_recomputations(adapter, runs, recomputed)
        return {
            "blocks_recomputed": len(recomputed),
            "recomputations": expected,
            "repeated": repeated,
        }

    # a block may have several products, and a user's block may run several times in a pass
    is_lower_bound = is_compiled or adapter.is_user_model
    bound = at_least("recomputations") if is_lower_bound else equal_to("recomputations")
    proof = expect(blocks_recomputed=above(0), recomputations=above(0), repeated=bound)
    return proof.counting_from(count_recomputed)


@contextmanager
def _guard_second_run(
    second_run: AbstractContextManager[Any], norms: list[nn.Module], in_float64: bool
) -> Iterator[None]:
    """Enter PyTorch's context for the second run of a block, and that of `prepare_second_run`.

    Raises DoesNotApply if the block changes a saved matmul's result in place.
    """
    try:
        with second_run, prepare_second_run(norms, in_float64):
            yield
    except RuntimeError as error:
        if "has been mutated" not in str(error):
            raise
        raise DoesNotApply(
            "the model changes a product in place, as an activation with inplace=True does right "
            "behind a convolution: saved, it would be changed twice"
        ) from error


@switch
def checkpoint_dots(adapter: TorchAdapter, batched: bool = True) -> Proof:
    """Save the results of matmuls, and recompute whatever lies between them.

    Without `batched` those of attention are recomputed too.
    """
    names = SAVED_MATMULS + BATCHED_MATMULS if batched else SAVED_MATMULS
    saved = [getattr(torch.ops.aten, name).default for name in names]

    def run_block(block: nn.Module, *xs: Any, **kwargs: Any) -> Any:
        def make_contexts() -> tuple[Any, Any]:
            first_run, second_run = create_selective_checkpoint_contexts(saved)
            norms = _list_batch_norms(block)
            guarded = partial(_guard_second_run, second_run, norms, in_float64=adapter.float64)
            return first_run, RepeatedContext(guarded)

        return run_recomputed(block, xs, kwargs, context_fn=make_contexts)

    def count_attention() -> int:
        """Return how many matmuls attention makes in one forward pass."""
        with torch.no_grad(), adapter.context(), StepCounter([], []) as observed:
            call_with(adapter.model, adapter.inputs[0])
        return sum(observed.operators[name] for name in BATCHED_MATMULS)

    def count_repeated(observed: Evidence) -> Evidence:
        """Count the block runs and matmuls that a step without checkpointing does not make."""
        without, runs = _observe_without_recomputation(adapter)
        passes = adapter.micro_batches * adapter.loss_evaluations
        matmuls = sum(observed["products"].values()) - sum(without["products"].values())
        return {
            "recomputations": _count_expected_recomputations(
                adapter, runs, adapter.model_module.blocks_of(adapter.model)
            ),
            "block_runs_repeated": observed["block_runs"] - without["block_runs"],
            "products_of_attention": 0 if batched else passes * count_attention(),
            "products_repeated": matmuls,
        }

    adapter.recipe.block_runner = run_block
    refuse_changed_inputs(adapter)
    proof = expect(
        block_runs_repeated=at_least("recomputations"),
        products_repeated=equal_to("products_of_attention"),
    )
    return proof.counting_from(count_repeated)
