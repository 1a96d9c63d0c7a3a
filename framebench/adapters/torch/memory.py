"""PyTorch's switches for the strategies of `framebench/strategies/memory.toml`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import nn

from framebench.adapters.base import Switches
from framebench.adapters.proof import (
    Evidence,
    Proof,
    above,
    at_most,
    check,
    equal_to,
    expect,
)
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.user_optimizer import CombinedOptimizer, list_inner, list_parts
from framebench.models.spec import USER_MODEL
from framebench.suite.user_file import DoesNotApply

switch = Switches()
SPARE = 64 << 20  # bytes of a tensor that is so large that it gets a segment for itself
BEYOND_SHARE = 0.02  # of the GPU's memory: by so much a test allocation goes beyond a limit


class _InBackward(CombinedOptimizer):
    """One optimizer per weight, which steps as soon as the weight's gradient is computed.

    The gradient is then dropped. This class takes the place of the step's optimizer.
    https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html
    """

    def __init__(self, by_weight: dict[nn.Parameter, Any]) -> None:
        """Combine the optimizers, given by the weight that each updates."""
        super().__init__(list(by_weight.values()))
        self.by_weight = by_weight

    def update(self, parameter: Any) -> None:
        """Update one weight and drop its gradient."""
        self.by_weight[parameter].step()
        parameter.grad = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Do nothing: no gradient is left."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Do nothing: every weight is updated."""


def _make_one_by_one(
    make: Callable[..., Any], settings: Any, params: Iterable[nn.Parameter], **options: Any
) -> _InBackward:
    """Return an optimizer for each weight. Raises DoesNotApply.

    A user's optimizer may give weights settings by their place among all weights. It is therefore
    first made for all of them; then each weight gets an optimizer with its group's settings.
    """
    if settings.name != USER_MODEL:
        return _InBackward({p: make(settings, [p], **options) for p in params})
    by_weight = {}
    for optimizer in list_parts(make(settings, params, **options)):
        kind: Any = type(optimizer)
        for group in optimizer.param_groups:
            for p in group["params"]:
                try:
                    by_weight[p] = kind([group | {"params": [p]}])
                except TypeError as error:
                    raise DoesNotApply(
                        f"your optimizer, {kind.__name__}, cannot be made for one weight: {error}"
                    ) from error
    return _InBackward(by_weight)


@switch
def optimizer_in_backward(adapter: TorchAdapter) -> Proof:
    """Update each weight in the backward pass."""
    adapter.recipe.wrap("optimizer", lambda make: partial(_make_one_by_one, make))

    updated: set[int] = set()  # the ids of weights that got a gradient

    def update(weight: torch.Tensor) -> None:
        updated.add(id(weight))
        adapter.optimizer.update(weight)

    def attach() -> None:
        for p in adapter.list_trained():
            p.register_post_accumulate_grad_hook(update)

    adapter.before_first_step.append(attach)

    def count_moved() -> Evidence:
        """Make a step, and count the gradients it leaves and the weights it moves."""
        trained = adapter.list_trained()
        before = [p.detach().clone() for p in trained]
        updated.clear()
        adapter.one_step()
        return {
            "gradients_left": sum(p.grad is not None for p in trained),
            "weights_moved": sum(not torch.equal(a, b) for a, b in zip(before, trained)),
            "weights_updated": len(updated),
        }

    # no gradient is left when the backward pass ends, and yet every weight that got one has moved
    proof = expect(
        gradients_left=0, weights_updated=above(0), weights_moved=equal_to("weights_updated")
    )
    return proof.counting(count_moved)


@switch
def keep_grads(adapter: TorchAdapter) -> Proof:
    """Fill gradients with zeros in place between steps, instead of setting them to None."""
    adapter.recipe.zero_grad_options["set_to_none"] = False

    def count_kept() -> Evidence:
        """Count the gradients that are the same tensors as those of the step before."""
        trained = adapter.list_trained()
        gradients_before = [p.grad for p in trained]
        adapter.one_step()
        gradients_kept = 0
        for weight, old_gradient in zip(trained, gradients_before):
            gradients_kept += old_gradient is not None and weight.grad is old_gradient
        gradients = sum(p.grad is not None for p in trained)
        return {"gradients_kept": gradients_kept, "gradients": gradients}

    proof = expect(gradients=above(0), gradients_kept=equal_to("gradients"))
    return proof.counting(count_kept)


@switch
def foreach(adapter: TorchAdapter) -> Proof:
    """Update lists of weights at once.

    On a GPU this is PyTorch's default, so the baseline does the same, and the proof fails. The
    proof compares counts, since a user's hook may use operators on lists anyway.
    """
    adapter.recipe.optimizer_options["foreach"] = True

    def set_foreach(value: bool | None) -> None:
        for optimizer in (adapter.optimizer, *list_inner(adapter.optimizer)):
            for group in optimizer.param_groups:
                group.update(foreach=value, fused=None)

    def count_operators(observed: Evidence) -> Evidence:
        """Count the operators on lists of tensors, with the switch and without."""
        set_foreach(None)  # PyTorch's default
        by_default = adapter.observe()
        set_foreach(True)
        return {
            "operators_on_lists": count_on_lists(observed),
            "operators_on_lists_by_default": count_on_lists(by_default),
        }

    proof = expect(operators_on_lists=above("operators_on_lists_by_default"))
    return proof.counting_from(count_operators)


def count_on_lists(observed: Evidence) -> int:
    """Return how many operators of a step take lists of tensors."""
    return sum(name.startswith("_foreach_") for name in observed["operators"])


@switch
def fused_optimizer(adapter: TorchAdapter) -> Proof:
    """Update all weights in one kernel."""
    adapter.recipe.optimizer_options["fused"] = True

    def is_fused(e: Evidence) -> bool:
        return any(name.startswith("_fused_") for name in e["operators"])

    return check(is_fused, "an operator is called _fused_...")


@switch
def channels_last(adapter: TorchAdapter) -> Proof:
    """Keep the channels of images and of 2-D convolutions' weights innermost."""

    def to_channels_last(x: torch.Tensor) -> torch.Tensor:
        return x.to(memory_format=torch.channels_last) if x.ndim == 4 else x

    adapter.recipe.on_model.append(lambda model: model.to(memory_format=torch.channels_last))
    adapter.recipe.on_input = to_channels_last
    # an input with a single channel has both orders at once
    return expect(
        {"convolutions.channels_last": above(0), "convolutions.channels_first": at_most(1)}
    )


@switch
def empty_cache(adapter: TorchAdapter, every: int = 1) -> Proof:
    """Give free segments back to the GPU after each `every` steps."""

    def give_back() -> None:
        if adapter.steps % every == 0:
            adapter.synchronize()
            torch.cuda.empty_cache()

    adapter.after_step.append(give_back)

    def count_segments() -> Evidence:
        """Count the segments that are freed in steps, and those that the call after a step frees.

        The allocator may give back segments in a step by itself.
        """
        counts = [_count_freed_segments()]

        def before_call() -> None:
            adapter.synchronize()
            _free_a_segment()
            counts.append(_count_freed_segments())

        def after_call() -> None:
            counts.append(_count_freed_segments())

        adapter.after_step.insert(0, before_call)
        adapter.after_step.append(after_call)
        for _step in range(every):
            adapter.step()
        adapter.after_step.remove(before_call)
        adapter.after_step.remove(after_call)
        freed_before, freed_after = counts[-2:]  # before and after the call behind the last step
        return {
            "segments_freed_by_the_call": freed_after - freed_before,
            "segments_freed_by_steps": freed_before - counts[0],
        }

    # segments and not bytes: how many bytes can be given back is the result of the measurement
    return expect(segments_freed_by_the_call=above(0)).counting(count_segments)


@switch
def pool_off(adapter: TorchAdapter) -> Proof:
    """Prove that the pool counts no bytes although the weights are on the GPU."""

    def count_bytes() -> Evidence:
        return {
            "counted_bytes": torch.cuda.memory_allocated(),
            "reserved_bytes": torch.cuda.memory_reserved(),
            "weights_on_the_host": sum(not p.is_cuda for p in adapter.model.parameters()),
        }

    return expect(counted_bytes=0, reserved_bytes=0, weights_on_the_host=0).counting(count_bytes)


@switch
def expandable_segments(adapter: TorchAdapter) -> Proof:
    """Prove that the allocator reports its segments as expandable."""

    def count_segments() -> Evidence:
        segments = torch.cuda.memory._snapshot()["segments"]
        expandable = sum(segment["is_expandable"] for segment in segments)
        return {"segments": len(segments), "segments_expandable": expandable}

    proof = expect(segments=above(0), segments_expandable=equal_to("segments"))
    return proof.counting(count_segments)


@switch
def malloc_async(adapter: TorchAdapter) -> Proof:
    """Prove that the driver counts its pool's bytes, and the native allocator has no segments."""

    def count_segments() -> Evidence:
        stats = torch.cuda.memory_stats()
        return {
            "reserved_bytes": stats["reserved_bytes.all.current"],
            "segments": stats["segment.all.allocated"],
        }

    return expect(reserved_bytes=above(0), segments=0).counting(count_segments)


@switch
def memory_fraction(adapter: TorchAdapter, share: float = 0.8) -> Proof:
    """Limit the process to a share of the GPU's memory."""
    if adapter.torch_device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(share)

    def is_refused(size: int) -> bool:
        """Return whether an allocation of so many bytes fails."""
        try:
            torch.empty(size, dtype=torch.uint8, device=adapter.torch_device)
        except torch.cuda.OutOfMemoryError:
            return True
        finally:
            torch.cuda.empty_cache()
        return False

    def ask_for_more() -> Evidence:
        """Request a little more than the share, with the limit and without it."""
        torch.cuda.empty_cache()
        _free, total = torch.cuda.mem_get_info()
        size = int((share + BEYOND_SHARE) * total) - torch.cuda.memory_reserved()
        refused = is_refused(size)
        torch.cuda.set_per_process_memory_fraction(1.0)
        refused_without = is_refused(size)
        torch.cuda.set_per_process_memory_fraction(share)
        return {"refused": refused, "refused_without": refused_without}

    return expect(refused=True, refused_without=False).counting(ask_for_more)


def _free_a_segment() -> None:
    """Leave a segment of the pool free.

    A small model's step may leave a tensor in each of its segments.
    """
    torch.empty(SPARE, dtype=torch.uint8, device="cuda")


def _count_freed_segments() -> int:
    """Return how many segments the allocator has given back to the device so far."""
    return torch.cuda.memory_stats().get("segment.all.freed", 0)


@switch
def after_training(adapter: TorchAdapter, cleared: bool) -> Proof:
    """Train another model for one step first; the allocator may keep its memory."""
    counts: Evidence = {}

    def train() -> None:
        """Make the passes of one training step of another model, and count what they leave."""
        model = adapter.load(adapter.config, adapter.get_initial_weights(adapter.config)).train()
        x, y = adapter.inputs
        adapter.model_module.loss(model(x), y).backward()
        counts["gradients_of_the_training_step"] = sum(
            p.grad is not None for p in model.parameters()
        )
        del model
        freed = _count_freed_segments()
        if cleared:
            _free_a_segment()
            gc.collect()
            torch.cuda.empty_cache()
        counts["segments_given_back"] = _count_freed_segments() - freed

    adapter.before_first_step.append(train)
    # segments and not bytes: how many bytes can be given back is the result of the measurement
    proof = expect(
        gradients_of_the_training_step=above(0),
        segments_given_back=above(0) if cleared else at_most(0),
    )
    return proof.counting(lambda: counts)
