"""How PyTorch switches on the strategies of `suite/catalog/memory.py`, and what proves that they were on."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import nn

from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.torch.adapter import TorchAdapter, make_optimizer
from framebench.adapters.torch.observe import Observed
from framebench.models.spec import OWN
from framebench.suite.user_file import DoesNotApply

switch = Switches()
SPARE = 64 << 20  # bytes


class _InBackward:
    """One optimizer per weight, which steps as soon as the weight's gradient is there; the gradient is then dropped.

    https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html
    """

    def __init__(self, make: Callable[..., Any], settings: Any, params: Iterable[nn.Parameter], **options: Any) -> None:
        self.each = _one_by_one(make, settings, list(params), options)
        for p in self.each:
            p.register_post_accumulate_grad_hook(self.update)

    def update(self, parameter: nn.Parameter) -> None:
        self.each[parameter].step()
        parameter.grad = None

    @property
    def state(self) -> dict[Any, Any]:
        return {p: s for optimizer in self.each.values() for p, s in optimizer.state.items()}

    def zero_grad(self) -> None: ...

    def step(self) -> None: ...


def _one_by_one(make: Callable[..., Any], settings: Any, params: list[nn.Parameter], options: Any) -> dict[nn.Parameter, Any]:
    """An optimizer for each weight. One of a user's own may treat weights by their place among all of them. Raises
    DoesNotApply."""
    if settings.name != OWN:
        return {p: make(settings, [p], **options) for p in params}
    whole = make(settings, params, **options)
    groups = [(type(one), group) for one in getattr(whole, "every", [whole]) for group in one.param_groups]
    try:
        return {p: kind([group | {"params": [p]}]) for kind, group in groups for p in group["params"]}
    except TypeError as error:
        names = " and ".join(sorted({kind.__name__ for kind, _ in groups}))
        raise DoesNotApply(f"your optimizer, {names}, cannot be made for one weight: {error}") from error


@switch
def optimizer_in_backward(run: TorchAdapter) -> Proof:
    run.recipe.wrap("optimizer", lambda make: partial(_InBackward, make))

    def proof(e: Evidence) -> bool:
        """No gradient is left when the backward pass ends, and yet every weight has moved."""
        trained = [p for p in run.model.parameters() if p.requires_grad]
        before = [p.detach().clone() for p in trained]
        run.one_step()
        e["gradients_left"] = sum(p.grad is not None for p in trained)
        e["weights_moved"] = sum(not torch.equal(a, b) for a, b in zip(before, trained))
        return e["gradients_left"] == 0 and e["weights_moved"] == len(before)

    return proof


@switch
def keep_grads(run: TorchAdapter) -> Proof:
    run.recipe.zero_grad_options["set_to_none"] = False

    def proof(e: Evidence) -> bool:
        """A step leaves its gradients in the very tensors where the last step's were."""
        before = [p.grad for p in run.model.parameters() if p.requires_grad]
        run.one_step()
        after = [p.grad for p in run.model.parameters() if p.requires_grad]
        e["gradients_kept"] = sum(a is b is not None for a, b in zip(after, before))
        return e["gradients_kept"] == len(before)

    return proof


def _by_default(run: TorchAdapter) -> set[str]:
    """The operators of the workload's optimizer without options, on this device."""
    shapes = [(2,) * p.ndim for p in run.model.parameters() if p.requires_grad]  # by which an optimizer may choose its weights
    weights = [nn.Parameter(torch.ones(shape, device=run.where)) for shape in shapes]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    with Observed([], []) as seen:
        optimizer = make_optimizer(run.case.optimizer, weights)  # a schedule's hook refers to it weakly
        optimizer.step()
    return set(seen.operators)


def lists(operators: Iterable[str]) -> int:
    """How many of these work on lists of tensors."""
    return sum(name.startswith("_foreach_") for name in operators)


@switch
def foreach(run: TorchAdapter) -> Proof:
    """On a GPU it is the default, so that the baseline does the same: then nothing is proven."""
    run.recipe.optimizer_options["foreach"] = True

    def proof(e: Evidence) -> bool:
        e["operators_on_lists"], e["operators_on_lists_by_default"] = lists(e["operators"]), lists(_by_default(run))
        return e["operators_on_lists"] > 0 == e["operators_on_lists_by_default"]

    return proof


@switch
def fused_optimizer(run: TorchAdapter) -> Proof:
    run.recipe.optimizer_options["fused"] = True
    return lambda e: any(name.startswith("_fused_") for name in e["operators"])


@switch
def channels_last(run: TorchAdapter) -> Proof:
    run.recipe.on_model.append(lambda model: model.to(memory_format=torch.channels_last))
    run.recipe.on_input = lambda x: x.to(memory_format=torch.channels_last) if x.ndim == 4 else x
    # an input with a single channel has both orders at once
    return lambda e: e["convolutions"]["channels_last"] > 0 and e["convolutions"]["channels_first"] <= 1


@switch
def empty_cache(run: TorchAdapter, every: int = 1) -> Proof:
    def give_back() -> None:
        if run.steps % every == 0:
            run.synchronize()
            torch.cuda.empty_cache()

    run.after_step.append(give_back)

    def proof(e: Evidence) -> bool:
        """By segments, not by bytes: how much there is to give back is what is measured."""
        before = _segments_freed()
        run.after_step.insert(0, _litter)
        for _ in range(every):
            run.step()
        run.after_step.remove(_litter)
        e["segments_given_back"], e["reserved_bytes"] = _segments_freed() - before, torch.cuda.memory_reserved()
        return e["segments_given_back"] > 0

    return proof


@switch
def pool_off(run: TorchAdapter) -> Proof:
    """Without the pool nothing is counted either, and yet the weights are on the card."""

    def proof(e: Evidence) -> bool:
        e["counted_bytes"], e["reserved_bytes"] = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        return e["counted_bytes"] == e["reserved_bytes"] == 0 and all(p.is_cuda for p in run.model.parameters())

    return proof


@switch
def expandable_segments(run: TorchAdapter) -> Proof:
    """What the allocator says of each segment that it has taken."""

    def proof(e: Evidence) -> bool:
        segments = torch.cuda.memory._snapshot()["segments"]
        e["segments"], e["segments_expandable"] = len(segments), sum(segment["is_expandable"] for segment in segments)
        return e["segments_expandable"] == e["segments"] > 0

    return proof


@switch
def malloc_async(run: TorchAdapter) -> Proof:
    """The driver counts the bytes of its pool; segments are the native allocator's alone, and it has taken none."""

    def proof(e: Evidence) -> bool:
        stats = torch.cuda.memory_stats()
        e["reserved_bytes"], e["segments"] = stats["reserved_bytes.all.current"], stats["segment.all.allocated"]
        return e["reserved_bytes"] > 0 == e["segments"]

    return proof


@switch
def memory_fraction(run: TorchAdapter, share: float = 0.8) -> Proof:
    if run.where.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(share)

    def refused(size: int) -> str:
        """Why so many bytes cannot be had; empty if they can."""
        try:
            torch.empty(size, dtype=torch.uint8, device=run.where)
            return ""
        except torch.cuda.OutOfMemoryError as error:
            return str(error)[:200]
        finally:
            torch.cuda.empty_cache()

    def proof(e: Evidence) -> bool:
        """A little more than the share is refused, and without the share it is there."""
        torch.cuda.empty_cache()
        total = torch.cuda.mem_get_info()[1]
        size = int((share + 0.02) * total) - torch.cuda.memory_reserved()
        e["bytes_asked"], e["refused"] = size, refused(size)
        torch.cuda.set_per_process_memory_fraction(1.0)
        e["refused_without"] = refused(size)
        torch.cuda.set_per_process_memory_fraction(share)
        return e["refused"] != "" == e["refused_without"]

    return proof


def _litter() -> None:
    """Leaves a free segment for certain: a step may leave something in each of its own."""
    torch.empty(SPARE, dtype=torch.uint8, device="cuda")


def _segments_freed() -> int:
    """How many segments the allocator has given back to the device so far."""
    return torch.cuda.memory_stats().get("segment.all.freed", 0)


@switch
def after_training(run: TorchAdapter, cleared: bool) -> Proof:
    """A training step of a model of its own, whose memory the allocator may keep."""
    left: Evidence = {}

    def train() -> None:
        model = run.load(run.config, run.canonical(run.config)).train()
        x, y = run.inputs
        run.model_module.loss(model(x), y).backward()
        left["gradients_of_the_training_step"] = sum(p.grad is not None for p in model.parameters())
        del model
        freed = _segments_freed()
        if cleared:
            _litter()
            gc.collect()
            torch.cuda.empty_cache()
        left["segments_given_back"] = _segments_freed() - freed
        left["bytes_held_before_evaluation"] = torch.cuda.memory_reserved()

    def proof(e: Evidence) -> bool:
        """By segments, not by bytes: how much there is to give back is what is measured."""
        e |= left
        return left["gradients_of_the_training_step"] > 0 and (left["segments_given_back"] > 0) == cleared

    run.before_first_step.append(train)
    return proof
