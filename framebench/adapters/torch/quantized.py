"""How PyTorch switches on the strategies of `suite/catalog/quantized.py`, by torchao, and what proves that they were on."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.observe import parts, unique_bytes
from framebench.adapters.torch.profiled import Profiled
from framebench.suite.catalog.quantized import BLOCK, LEAST
from models.spec import Optimizer

switch = Switches()


def torchao(run: TorchAdapter, module: str) -> Any:
    """A module of torchao. Raises LookupError."""
    try:
        found = importlib.import_module(f"torchao.{module}")
    except ImportError as error:
        raise LookupError(
            f"this interpreter cannot import torchao, of which requirements/torch.txt has a version: {error}"
        ) from error
    run.packages["torchao"] = importlib.import_module("torchao").__version__
    return found


@switch
def adamw_8bit(run: TorchAdapter) -> Proof:
    """The update is made of the moments before they are rounded. It is compiled, which nothing under a dispatch mode is."""
    optimizers = torchao(run, "optim")

    def make(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> Any:
        return optimizers.AdamW8bit(params, o.lr, o.betas, o.eps, o.weight_decay, **options)

    run.wrap_optimizer = make
    run.observer = lambda: Profiled(run.model, len(run.blocks()))

    def proof(e: Evidence) -> bool:
        moments = [s for s in run.state_tensors() if s.ndim]
        coded = [s for s in moments if any(p.dtype == torch.uint8 for p in parts(s))]
        large = [p for p in run.parameters() if p.requires_grad and p.numel() >= LEAST and p.numel() % BLOCK == 0]
        e |= {"moments": len(moments), "moments_in_8_bits": len(coded), "state_bytes": unique_bytes(moments)}
        return len(coded) == len(run.case.optimizer.states) * len(large) > 0

    return proof


@switch
def int8(run: TorchAdapter, products: bool) -> Proof:
    """Of what multiplies weights only linear layers are changed: embedding and head share a weight that stays as it is."""
    how = torchao(run, "quantization")
    configuration = how.Int8DynamicActivationInt8WeightConfig if products else how.Int8WeightOnlyConfig
    run.on_model.append(lambda model: how.quantize_(model, configuration()))

    def proof(e: Evidence) -> bool:
        linear = [m for m in run.model.modules() if isinstance(m, nn.Linear)]
        e["linear_layers"] = len(linear)
        e["linear_layers_in_8_bits"] = sum(any(p.dtype == torch.int8 for p in parts(m.weight)) for m in linear)
        e["weight_bytes"] = unique_bytes(run.parameters())
        e["integer_products"] = e["operators"].get("_int_mm", 0)
        rounded = e["linear_layers_in_8_bits"] == len(linear) > 0 and e["integer_products"] == products * len(linear)
        return rounded and set(e["products"]) == {"float32"}

    return proof
