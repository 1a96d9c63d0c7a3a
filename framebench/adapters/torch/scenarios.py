"""PyTorch's switches for the strategies of `framebench/strategies/scenarios.toml`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from framebench.adapters import common
from framebench.adapters.base import Switch, Switches
from framebench.adapters.loading import Loader, expect_loader
from framebench.adapters.proof import (
    Evidence,
    Proof,
    above,
    below,
    check,
    equal_to,
    expect,
    if_counted,
)
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.device import CudaStopwatch
from framebench.adapters.torch.observe import count_unique_bytes, follow_saved

switch = Switches()


# In a compiled step saved tensors are not visible, but the graph that would hold them is.
NOTHING_KEPT = expect(graph_nodes=0, saved_tensors=if_counted(0))
GRAPH_KEPT = expect(graph_nodes=above("blocks"), saved_tensors=if_counted(above("blocks")))


def make_mode_switch(context: Callable[[], Any], proof: Proof) -> Switch:
    """Return the switch of evaluation under a context of autograd."""

    def apply_mode(adapter: TorchAdapter) -> Proof:
        adapter.recipe.contexts.append(context)
        return add_gradient_check(adapter, proof) & expect_buffers_unchanged(adapter)

    return apply_mode


def expect_buffers_unchanged(adapter: TorchAdapter) -> Proof:
    """Return a proof that a step in evaluation mode changes no running statistic."""
    return common.expect_buffers_unchanged(lambda: not adapter.recipe.evaluates)


def add_gradient_check(adapter: TorchAdapter, proof: Proof) -> Proof:
    """Return the proof; for a user's model one that also checks that it leaves gradients off.

    A model that computes forces, which are gradients of an energy, switches gradients on in its
    forward pass. The strategy then cannot take effect, and the proof's reason says why.
    """
    if not adapter.is_user_model or proof is GRAPH_KEPT:
        return proof
    return proof & check(
        lambda evidence: not evidence["saved_tensors"],
        "the model leaves gradients off: it switches them on in its forward pass, as for forces",
    )


INFERENCE_TENSOR = expect(inference_tensor=True)
switch.by_name["no_grad"] = make_mode_switch(torch.no_grad, NOTHING_KEPT)
switch.by_name["inference_mode"] = make_mode_switch(
    torch.inference_mode, INFERENCE_TENSOR & NOTHING_KEPT
)
switch.by_name["grad"] = make_mode_switch(torch.enable_grad, GRAPH_KEPT)


@switch
def frozen_weights(adapter: TorchAdapter) -> Proof:
    """Request no gradient of any weight, with autograd left on."""
    adapter.recipe.on_model.append(lambda model: model.requires_grad_(False))
    return NOTHING_KEPT & expect_buffers_unchanged(adapter)


@switch
def batch_stats(adapter: TorchAdapter) -> Proof:
    """Evaluate by the statistics of the batch, and prove that every running statistic changes."""
    adapter.recipe.evaluates = False

    def displace() -> None:
        """Move each buffer away from the value that it converges to."""
        for buffer in adapter.model.buffers():
            buffer += 1

    return common.expect_buffers_changed(adapter, displace)


@switch
def frozen(adapter: TorchAdapter, part: str = "half") -> Proof:
    """Request gradients of one part of the weights alone, such as those of half the layers."""
    assert adapter.workload.trained  # without it the case is unsupported
    prefixes = adapter.workload.trained(adapter.config, part)

    def freeze(model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith(prefixes))

    def find_with_gradient() -> set[str]:
        return {name for name, p in adapter.model.named_parameters() if p.grad is not None}

    adapter.recipe.on_model.append(freeze)
    return common.expect_trained(adapter, prefixes, find_with_gradient)


@switch
def distill(adapter: TorchAdapter) -> Proof:
    """Distil the full model into a smaller one.

    The loss is half that of the labels, half the divergence from the full model's outputs, as in
    Hinton et al. 2015 at temperature 1.
    """
    config = adapter.workload.config(adapter.case.size)
    adapter.teacher_config = config

    def add_teacher(_: nn.Module) -> None:
        """Load the teacher next to the student, which stays as it is."""
        teacher = adapter.load(config, adapter.get_initial_weights(config)).eval()
        adapter.models_in_memory.append(teacher)

    def objective(x: Tensor, y: Tensor) -> Tensor:
        """Return the mean of the task's loss and the divergence from the teacher's output."""
        _, teacher = adapter.models_in_memory  # the student comes first
        with torch.no_grad():
            target = teacher(x).flatten(0, -2).log_softmax(-1)
        logits = adapter.recipe.forward(x)
        log_probability = logits.flatten(0, -2).log_softmax(-1)
        divergence = F.kl_div(log_probability, target, log_target=True, reduction="batchmean")
        return (adapter.model_module.loss(logits, y) + divergence) / 2

    def count_passes() -> Evidence:
        """Count the teacher's forward passes in one more step, and its gradients."""
        _, teacher = adapter.models_in_memory
        outputs: list[Any] = []
        with teacher.register_forward_hook(lambda *arguments: outputs.append(arguments)):
            adapter.one_step()
        return {
            "teacher_passes": len(outputs),
            "teacher_gradients": sum(p.grad is not None for p in teacher.parameters()),
        }

    adapter.recipe.on_model.append(add_teacher)
    adapter.recipe.objective = objective
    return expect(teacher_passes=adapter.micro_batches, teacher_gradients=0).counting(count_passes)


def _keep_both(
    adapter: TorchAdapter, make: Callable[..., list[nn.Module]], shared_trunk: bool
) -> Proof:
    """Keep two models in memory: those that `make` returns when called with the pair.

    `shared_trunk` says whether both have the same trunk.
    """

    def attach() -> None:
        pair = [adapter.load(adapter.config, weights) for weights in adapter.host_weights]
        adapter.models_in_memory = make(*pair)

    def count_bytes() -> Evidence:
        return {
            "parameter_bytes": count_unique_bytes(adapter.parameters()),
            "parameter_bytes_of_one": count_unique_bytes(adapter.models_in_memory[0].parameters()),
        }

    adapter.before_first_step.append(attach)
    total: Any = equal_to("parameter_bytes_of_one", times=2)
    if shared_trunk:
        total = (above("parameter_bytes_of_one"), below("parameter_bytes_of_one", times=2))
    return expect(parameter_bytes=total).counting(count_bytes)


@switch
def together(adapter: TorchAdapter, shared_trunk: bool = False) -> Proof:
    """Keep two models in memory; with `shared_trunk` they have one trunk and a head each."""

    def make(first_model: nn.Module, second_model: nn.Module) -> list[nn.Module]:
        if shared_trunk:
            for name, module in first_model.named_children():
                if not f"{name}.".startswith(adapter.workload.head):
                    setattr(second_model, name, module)
        return [first_model, second_model]

    return _keep_both(adapter, make, shared_trunk)


@switch
def scripted(adapter: TorchAdapter, shared_trunk: bool = False) -> Proof:
    """Keep two traced models in memory.

    With `shared_trunk` they have one traced trunk and a head each.

    The models are traced and not scripted, since `block_runner` is a Python function.
    """

    @torch.no_grad()
    def make(first_model: Any, second_model: Any) -> list[nn.Module]:
        x = adapter.inputs[0]
        if not shared_trunk:
            return [torch.jit.trace(first_model, x), torch.jit.trace(second_model, x)]
        heads = [first_model.fc, second_model.fc]
        first_model.fc = nn.Identity()
        trunk = torch.jit.trace(first_model, x)
        return [torch.jit.trace(nn.Sequential(trunk, head), x) for head in heads]

    def count_scripted() -> Evidence:
        models = adapter.models_in_memory
        return {"script_modules": sum(isinstance(m, torch.jit.ScriptModule) for m in models)}

    return _keep_both(adapter, make, shared_trunk) & expect(script_modules=2).counting(
        count_scripted
    )


@switch
def in_turn(adapter: TorchAdapter, cleared: bool = False) -> Proof:
    """Make one model after the other in each step; with `cleared` empty caches between them."""
    alive: weakref.WeakSet[nn.Module] = weakref.WeakSet()
    most_alive = 0  # alive at once
    caches_emptied = 0

    def models() -> Iterator[nn.Module]:
        """Yield each model of the pair, freed before the next is made."""
        nonlocal most_alive, caches_emptied
        for weights in adapter.host_weights:
            model = adapter.load(adapter.config, weights)
            alive.add(model)
            most_alive = max(most_alive, len(alive))
            yield model
            del model
            if cleared:
                gc.collect()
                caches_emptied += 1
                if adapter.torch_device.type == "cuda":
                    torch.cuda.empty_cache()

    def count_models() -> Evidence:
        return {
            "models_at_once": most_alive,
            "models_between_steps": len(alive),
            "caches_emptied": caches_emptied,
        }

    adapter.recipe.models = models
    # a model that something still refers to would be alive next to the next one
    proof = expect(
        models_at_once=1,
        models_between_steps=0,
        caches_emptied=above(0) if cleared else 0,
    )
    return proof.counting(count_models)


Span = tuple[float, float]  # start and end, in ms


class Copies:
    """Copies of batches from page-locked memory, on a stream of their own.

    The thread that prepares the batches makes the copies, and the step takes them.
    """

    def __init__(self, adapter: TorchAdapter) -> None:
        """Make the stream."""
        self.adapter = adapter
        self.stream = torch.cuda.Stream()
        self.stopwatches: list[CudaStopwatch] = []  # of each copy

    def send(self, x: Any, y: Any) -> tuple[Tensor, Tensor, torch.cuda.Event]:
        """Begin to copy a batch; return it with the event that ends the copy.

        The thread that prepares batches calls it.
        """
        host = [torch.from_numpy(array).pin_memory() for array in (x, y)]
        stopwatch = CudaStopwatch()
        with torch.cuda.stream(self.stream):
            stopwatch.start()
            inputs, targets = [t.to(self.adapter.torch_device, non_blocking=True) for t in host]
            stopwatch.stop()
        self.stopwatches.append(stopwatch)
        return inputs, targets, stopwatch.last

    def take(
        self, inputs: Tensor, targets: Tensor, copied: torch.cuda.Event
    ) -> tuple[Tensor, Tensor]:
        """Return a batch in the recipe's precision and format.

        The step calls it. The step's stream waits for the copy, and the batch's memory is not given
        back before the step ends.
        """
        step_stream = torch.cuda.current_stream()
        step_stream.wait_event(copied)
        for tensor in (inputs, targets):
            tensor.record_stream(step_stream)
        recipe = self.adapter.recipe
        return recipe.on_input(inputs.to(recipe.dtype)), targets

    def measure_overlap(self, steps: int) -> float:
        """Make `steps` steps; return the share of the copies' time during which a step ran."""
        beginning = torch.cuda.Event(enable_timing=True)
        step_stopwatches: list[CudaStopwatch] = []
        self.adapter.synchronize()
        beginning.record()
        self.stopwatches.clear()
        for _step in range(steps):
            stopwatch = CudaStopwatch()
            stopwatch.start()
            self.adapter.step()
            stopwatch.stop()
            step_stopwatches.append(stopwatch)
        copy_stopwatches = self.stopwatches.copy()  # the thread goes on adding to the list
        self.adapter.synchronize()

        def read_spans(stopwatches: list[CudaStopwatch]) -> list[Span]:
            spans = []
            for stopwatch in stopwatches:
                if stopwatch.last.query():  # it has been stopped
                    start = beginning.elapsed_time(stopwatch.first)
                    spans.append((start, beginning.elapsed_time(stopwatch.last)))
            return spans

        return compute_overlap(read_spans(copy_stopwatches), read_spans(step_stopwatches))


def compute_overlap(copies: list[Span], steps: list[Span]) -> float:
    """Return the share of the copies' time during which a step ran.

    Steps do not overlap each other.
    """
    total_ms = overlap_ms = 0.0
    for start, end in copies:
        total_ms += end - start
        for step_start, step_end in steps:
            overlap_ms += max(0.0, min(end, step_end) - max(start, step_start))
    return overlap_ms / total_ms if total_ms else 0.0


@switch
def pinned(adapter: TorchAdapter) -> Proof:
    """Copy batches from page-locked memory while the step before runs."""
    copies = Copies(adapter)

    def attach() -> None:
        adapter.loader = Loader(adapter.case, "pinned", copies.send, copies.take)

    def watch_copies() -> Evidence:
        assert adapter.loader
        return adapter.loader.count() | {"overlap_share": copies.measure_overlap(steps=10)}

    adapter.before_first_step.append(attach)
    proof = expect_loader("pinned") & expect(overlap_share=above(0.5))
    return proof.counting(watch_copies)


def _count_saved(gelu: Callable[[Tensor], Tensor]) -> Evidence:
    """Count the tensors that one GELU keeps for its backward pass."""
    saved: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with follow_saved(keep):
        gelu(torch.linspace(-3, 3, 7, requires_grad=True))
    return {"saved_by_one_gelu": len(saved)}


@switch
def built_in(adapter: TorchAdapter) -> Proof:
    """Prove that PyTorch's own GELU runs once in each block."""
    proof = expect({"saved_by_one_gelu": 1, "operators.gelu": equal_to("block_runs")})
    return proof.counting(lambda: _count_saved(F.gelu))


ROOT_HALF = 0.5**0.5
ROOT_TWO_PI = (2 * torch.pi) ** 0.5


class LeanGelu(torch.autograd.Function):
    """GELU, which is x Phi(x) with the normal distribution Phi. It saves only x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return F.gelu(x)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        phi = torch.exp(-x * x / 2) / ROOT_TWO_PI
        return upstream * ((1 + torch.erf(x * ROOT_HALF)) / 2 + x * phi)


class WastefulGelu(torch.autograd.Function):
    """GELU that saves every intermediate result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        scaled = x * ROOT_HALF
        error_function = torch.erf(scaled)
        cumulative = (1 + error_function) / 2
        density = torch.exp(-scaled * scaled) / ROOT_TWO_PI
        ctx.save_for_backward(x, scaled, error_function, cumulative, density)
        return x * cumulative

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        x, _, _, cumulative, density = ctx.saved_tensors
        return upstream * (cumulative + x * density)


@switch
def custom_rule(adapter: TorchAdapter, lean: bool) -> Proof:
    """Give the model a GELU with a hand-written backward pass."""
    rule = LeanGelu if lean else WastefulGelu
    adapter.recipe.model_options["gelu"] = rule.apply

    proof = expect(
        {
            "saved_by_one_gelu": 1 if lean else 5,
            # the lean rule shares the forward pass with PyTorch's own GELU
            "operators.gelu": above(0) if lean else 0,
            "operators.gelu_backward": 0,
        }
    )
    return proof.counting(lambda: _count_saved(rule.apply))
