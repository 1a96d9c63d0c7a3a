"""How PyTorch switches on the strategies of `suite/catalog/scenarios.py`, and what proves that they were on."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from framebench.adapters.base import Evidence, Proof, Switch, Switches
from framebench.adapters.loading import Loader
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.copies import Copies, overlap
from framebench.adapters.torch.observe import unique_bytes

switch = Switches()


def mode(context: Callable[[], Any], proof: Proof) -> Switch:
    """Evaluation under a context of autograd. It leaves every buffer as it was, unless to change them is the strategy."""

    def apply(run: TorchAdapter) -> Proof:
        run.recipe.contexts.append(context)
        return lambda e: proof(e) and (e["buffers_changed"] == 0 or not run.recipe.evaluates)

    return apply


# of a compiled step the saved tensors are not seen, but the graph that would hold them is
def _nothing_kept(e: Evidence) -> bool:
    return e["graph_nodes"] == 0 and not e["saved_tensors"]


def _graph_kept(e: Evidence) -> bool:
    saved = e["saved_tensors"]
    return e["graph_nodes"] > e["blocks"] and (saved is None or saved > e["blocks"])


switch["no_grad"] = mode(torch.no_grad, _nothing_kept)
switch["inference_mode"] = mode(torch.inference_mode, lambda e: e["inference_tensor"] and _nothing_kept(e))
switch["grad"] = mode(torch.enable_grad, _graph_kept)


@switch
def frozen_weights(run: TorchAdapter) -> Proof:
    run.recipe.on_model.append(lambda model: model.requires_grad_(False))
    return lambda e: _nothing_kept(e) and (e["buffers_changed"] == 0 or not run.recipe.evaluates)


@switch
def batch_stats(run: TorchAdapter) -> Proof:
    run.recipe.evaluates = False

    def proof(e: Evidence) -> bool:
        """Every statistic moves. Displaced first: under one batch again and again they would come to rest."""
        for buffer in run.model.buffers():
            buffer += 1
        e |= {name: n for name, n in run.observe().items() if name.startswith("buffers")}
        return e["buffers_changed"] == e["buffers"] > 0

    return proof


@switch
def frozen(run: TorchAdapter, part: str = "half") -> Proof:
    """What the workload does not train gets no gradient."""
    assert run.workload.trained  # else the cell is unsupported
    prefixes = run.workload.trained(run.config, part)

    def freeze(model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith(prefixes))

    def proof(e: Evidence) -> bool:
        with_gradient = {name for name, p in run.model.named_parameters() if p.grad is not None}
        e["weights_with_gradient"] = len(with_gradient)
        e["weights_with_states"] = len(with_states := {state.name for state in run.states()})
        wanted = {n for n, _ in run.model.named_parameters() if n.startswith(prefixes)}
        return with_gradient == with_states == wanted != set()

    run.recipe.on_model.append(freeze)
    return proof


@switch
def distill(run: TorchAdapter) -> Proof:
    """Hinton et al. 2015, at temperature 1: half the labels' loss, half the divergence from the full model's outputs."""
    config = run.teacher = run.workload.config(run.case.size)
    passes: list[int] = []

    def attach(model: nn.Module) -> None:
        teacher = run.load(config, run.canonical(config)).eval()
        teacher.register_forward_hook(lambda *_: passes.append(1))
        run.held.append(teacher)

    def objective(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            target = run.held[1](x).flatten(0, -2).log_softmax(-1)
        logits = run.recipe.forward(x)
        log_probability = logits.flatten(0, -2).log_softmax(-1)
        divergence = F.kl_div(log_probability, target, log_target=True, reduction="batchmean")
        return (run.model_module.loss(logits, y) + divergence) / 2

    def proof(e: Evidence) -> bool:
        before = len(passes)
        run.one_step()
        e["teacher_passes"] = len(passes) - before
        e["teacher_gradients"] = sum(p.grad is not None for p in run.held[1].parameters())
        return e["teacher_passes"] == run.micro and e["teacher_gradients"] == 0

    run.recipe.on_model.append(attach)
    run.recipe.objective = objective
    return proof


def _parameter_bytes(models: Iterable[nn.Module]) -> int:
    return unique_bytes(p for model in models for p in model.parameters())


def _hold(run: TorchAdapter, make: Callable[[], list[nn.Module]], shared: bool) -> Proof:
    """Two models that stay in memory."""

    def attach() -> None:
        run.held = make()

    def proof(e: Evidence) -> bool:
        e["parameter_bytes"], one = _parameter_bytes(run.held), _parameter_bytes(run.held[:1])
        e["parameter_bytes_of_one"] = one
        return one < e["parameter_bytes"] < 2 * one if shared else e["parameter_bytes"] == 2 * one

    run.before_first_step.append(attach)
    return proof


@switch
def together(run: TorchAdapter, shared: bool = False) -> Proof:
    def make() -> list[nn.Module]:
        one, other = (run.load(run.config, weights) for weights in run.host_weights)
        if shared:
            for name, module in one.named_children():
                if not f"{name}.".startswith(run.workload.head):
                    setattr(other, name, module)
        return [one, other]

    return _hold(run, make, shared)


@switch
def scripted(run: TorchAdapter, shared: bool = False) -> Proof:
    """Traced, since `remat` is a Python function; with one trunk, the models are a traced trunk and a head each."""

    def make() -> list[nn.Module]:
        one, other = (run.load(run.config, weights) for weights in run.host_weights)
        x = run.inputs[0]
        with torch.no_grad():
            if not shared:
                return [torch.jit.trace(model, x) for model in (one, other)]
            heads: list[Any] = [model.fc for model in (one, other)]
            one.fc = nn.Identity()
            trunk = torch.jit.trace(one, x)
            return [torch.jit.trace(nn.Sequential(trunk, head), x) for head in heads]

    def proof(e: Evidence) -> bool:
        e["script_modules"] = sum(isinstance(model, torch.jit.ScriptModule) for model in run.held)
        return bytes_proof(e) and e["script_modules"] == 2

    bytes_proof = _hold(run, make, shared)
    return proof


@switch
def in_turn(run: TorchAdapter, cleared: bool = False) -> Proof:
    alive: weakref.WeakSet[nn.Module] = weakref.WeakSet()
    most = cleanings = 0

    def models() -> Iterator[nn.Module]:
        nonlocal most, cleanings
        for weights in run.host_weights:
            model = run.load(run.config, weights)
            alive.add(model)
            most = max(most, len(alive))
            yield model
            del model
            if cleared:
                gc.collect()
                cleanings += 1
                if run.where.type == "cuda":
                    torch.cuda.empty_cache()

    def proof(e: Evidence) -> bool:
        """A model that something still refers to would be alive beside the next one."""
        e |= {"models_at_once": most, "models_between_steps": len(alive), "caches_emptied": cleanings}
        return most == 1 > len(alive) and (cleanings > 0) == cleared

    run.recipe.models = models
    return proof


STREAMED = 10  # steps that are watched for copies beside them


@switch
def pinned(run: TorchAdapter) -> Proof:
    copies = Copies(run)

    def attach() -> None:
        run.loader = Loader(run.case, "pinned", copies.send, copies.arrive)

    run.before_first_step.append(attach)

    def proof(e: Evidence) -> bool:
        assert run.loader
        copied, steps = copies.watched(STREAMED)
        assert run.loader
        e |= run.loader.counted() | {"copies_watched": len(copied), "overlap_share": overlap(copied, steps)}
        e["copy_ms"] = sum(b - a for a, b in copied) / max(1, len(copied))
        return run.loader.worked_as("pinned") and e["overlap_share"] > 0.5

    return proof


def _saved_by(gelu: Callable[[Tensor], Tensor]) -> int:
    """How many tensors one GELU keeps for its backward pass."""
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        gelu(torch.linspace(-3, 3, 7, requires_grad=True))
    return len(kept)


@switch
def built_in(run: TorchAdapter) -> Proof:
    def proof(e: Evidence) -> bool:
        e["saved_by_one_gelu"] = _saved_by(F.gelu)
        return e["saved_by_one_gelu"] == 1 and e["operators"].get("gelu", 0) == e["block_runs"]

    return proof


ROOT_HALF, ROOT_TWO_PI = 0.5**0.5, (2 * torch.pi) ** 0.5


class LeanGelu(torch.autograd.Function):
    """x Phi(x); keeps x alone."""

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
    """The same; keeps whatever it has computed on the way."""

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
def custom_rule(run: TorchAdapter, lean: bool) -> Proof:
    rule = LeanGelu if lean else WastefulGelu
    run.recipe.model_options["gelu"] = rule.apply

    def proof(e: Evidence) -> bool:
        """PyTorch's own GELU would run its own backward pass: the lean rule shares the forward pass with it."""
        e["saved_by_one_gelu"] = _saved_by(rule.apply)
        builtin_backward = "gelu_backward" in e["operators"]
        return e["saved_by_one_gelu"] == (1 if lean else 5) and ("gelu" in e["operators"]) == lean and not builtin_backward

    return proof
