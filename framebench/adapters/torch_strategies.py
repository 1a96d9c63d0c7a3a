"""How PyTorch switches each strategy on, and what proves that it was on. See `adapters/base.py` for what a switch is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint as recompute

from framebench.adapters.base import Evidence, Proof, Switch

if TYPE_CHECKING:
    from framebench.adapters.torch_adapter import TorchAdapter

SWITCHES: dict[str, Switch] = {}


def switch(function: Switch) -> Switch:
    """Registers a function under its name, which is the `how` of a row."""
    SWITCHES[function.__name__] = function
    return function


def only(dtype: str) -> Proof:
    """Every product of the observed step took this type."""
    return lambda e: set(e["products"]) == {dtype}


@switch
def fp32(run: TorchAdapter) -> Proof:
    return only("float32")


@switch
def amp_bf16(run: TorchAdapter) -> Proof:
    """Fresh per forward pass: autocast caches the cast weights until it is left."""
    run.contexts.append(partial(torch.autocast, run.where.type, torch.bfloat16))
    return only("bfloat16")


@switch
def half(run: TorchAdapter, dtype: str) -> Proof:
    run.dtype = getattr(torch, dtype)
    return lambda e: set(e["products"]) == {dtype} == {str(p.dtype).removeprefix("torch.") for p in run.model.parameters()}


@switch
def checkpoint(run: TorchAdapter, every: int = 1) -> Proof:
    chosen: set[nn.Module] = set()

    def attach(model: nn.Module) -> None:
        chosen.update(run.model_module.blocks_of(model)[::every])

        def remat(block: nn.Module, *xs: Any) -> Any:
            return recompute(block, *xs, use_reentrant=False) if block in chosen else block(*xs)

        model.remat = remat

    run.on_model.append(attach)

    def proof(e: Evidence) -> bool:
        """A block below every trained weight has nothing to recompute for."""
        again = [b for b in chosen if any(p.requires_grad for p in b.parameters())]
        return bool(again) and e["block_runs"] == run.micro * (e["blocks"] + len(again))

    return proof


@switch
def accumulate(run: TorchAdapter) -> Proof:
    return lambda e: e["forward_passes"] == run.micro and e["samples_per_pass"] * run.micro == run.case.batch


def mode(context: Callable[[], Any], proof: Proof) -> Switch:
    """Evaluation under a context of autograd."""

    def apply(run: TorchAdapter) -> Proof:
        run.contexts.append(context)
        return proof

    return apply


SWITCHES["no_grad"] = mode(torch.no_grad, lambda e: not e["graph_kept"] and e["saved_tensors"] == 0 == e["buffers_changed"])
SWITCHES["inference_mode"] = mode(torch.inference_mode, lambda e: e["inference_tensor"] and e["saved_tensors"] == 0)
SWITCHES["grad"] = mode(torch.enable_grad, lambda e: e["graph_kept"] and e["saved_tensors"] > 0)


@switch
def frozen(run: TorchAdapter) -> Proof:
    """What the workload does not train gets no gradient."""
    prefixes = run.workload.trained(run.config, "head" if run.case.plan.mathematics == "head" else "half")

    def freeze(model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith(prefixes))

    def proof(e: Evidence) -> bool:
        with_gradient = {name for name, p in run.model.named_parameters() if p.grad is not None}
        e["weights_with_gradient"] = len(with_gradient)
        return with_gradient == {n for n, _ in run.model.named_parameters() if n.startswith(prefixes)} != set()

    run.on_model.append(freeze)
    return proof
