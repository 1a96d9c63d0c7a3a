"""How PyTorch switches on the strategies of `framebench/strategies/quantized.py`, and what proves that they were on."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from framebench.adapters.base import State, Switches
from framebench.adapters.proof import Evidence, Proof, above, equal_to, expect, only
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.observe import parts, unique_bytes
from framebench.adapters.torch.tensors import on_host
from framebench.models.spec import Optimizer
from framebench.strategies.quantized import BLOCK, LEAST

switch = Switches()


def beside(run: TorchAdapter, module: str) -> Any:
    """Import a module of a package that is installed next to PyTorch. Raises LookupError."""
    package = module.partition(".")[0]
    try:
        imported_module = importlib.import_module(module)
    except ImportError as error:
        raise LookupError(
            f"this interpreter cannot import {package}, of which requirements/torch.txt has a version: {error}"
        ) from error
    run.packages[package] = importlib.import_module(package).__version__
    return imported_module


@switch
def adamw_8bit(run: TorchAdapter) -> Proof:
    """Keep AdamW's moments in 8 bits, by torchao.

    The update is made of the moments before they are rounded. It is compiled, which nothing under a dispatch mode is.
    """
    optimizers = beside(run, "torchao.optim")

    def make(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> Any:
        return optimizers.AdamW8bit(params, o.lr, o.betas, o.eps, o.weight_decay, **options)

    run.recipe.optimizer = make
    run.readings.profiled = True
    return expect_codes(run)


def expect_codes(run: TorchAdapter) -> Proof:
    """Return a proof that all moments of every large weight are codes in 8 bits."""

    def count_codes(_: Evidence) -> Evidence:
        states = [s for s in run.state_tensors() if s.ndim]
        codes = [s for s in states if any(p.dtype == torch.uint8 for p in parts(s))]
        trained = [p for p in run.parameters() if p.requires_grad]
        large = [p for p in trained if p.numel() >= LEAST and p.numel() % BLOCK == 0]
        return {
            "large_weights": len(large),
            "moments_in_8_bits": len(codes),
            "state_bytes": unique_bytes(states),
        }

    moments = len(run.case.optimizer.states)
    proof = expect(moments_in_8_bits=(above(0), equal_to("large_weights", times=moments)))
    return proof.counting(count_codes)


@switch
def adamw_8bit_bnb(run: TorchAdapter) -> Proof:
    """Keep AdamW's moments in 8 bits, by bitsandbytes.

    States of one weight are codes, scales of blocks and the table of codes, each a tensor by itself.
    """
    optimizers, dequantize = beside(run, "bitsandbytes.optim"), beside(run, "bitsandbytes.functional").dequantize_blockwise

    def make(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> Any:
        return optimizers.AdamW8bit(params, o.lr, o.betas, o.eps, o.weight_decay, min_8bit_size=LEAST, **options)

    def moments(_: Iterator[State]) -> Iterator[State]:
        names = {p: name for name, p in run.model.named_parameters()}
        for p, state in run.optimizer.state.items():
            for number, kind in enumerate(("first moment", "second moment"), 1):
                kept = [state[f"{name}{number}"] for name in ("state", "absmax", "qmap") if f"{name}{number}" in state]
                values, *scales = kept
                if scales:
                    values = dequantize(values, absmax=scales[0], code=scales[1], blocksize=BLOCK)
                yield State(kind, names[p], on_host(values), unique_bytes(kept))

    run.recipe.optimizer, run.readings.states = make, moments
    return expect_codes(run)


@switch
def int8(run: TorchAdapter, products: bool) -> Proof:
    """Keep the weights of linear layers in 8 bits.

    Embedding and head share a weight that stays as it is.
    """
    how = beside(run, "torchao.quantization")
    configuration = how.Int8DynamicActivationInt8WeightConfig if products else how.Int8WeightOnlyConfig
    run.recipe.on_model.append(lambda model: how.quantize_(model, configuration()))

    def count_layers(observed: Evidence) -> Evidence:
        linear = [m for m in run.model.modules() if isinstance(m, nn.Linear)]
        coded = [m for m in linear if any(p.dtype == torch.int8 for p in parts(m.weight))]
        return {
            "linear_layers": len(linear),
            "linear_layers_in_8_bits": len(coded),
            "weight_bytes": unique_bytes(run.parameters()),
            "integer_products": observed["operators"].get("_int_mm", 0),
        }

    proof = expect(
        linear_layers=above(0),
        linear_layers_in_8_bits=equal_to("linear_layers"),
        integer_products=equal_to("linear_layers") if products else 0,
        products=only("float32"),
    )
    return proof.counting(count_layers)
