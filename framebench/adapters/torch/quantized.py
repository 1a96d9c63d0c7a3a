"""PyTorch's switches for the strategies of `framebench/strategies/quantized.toml`."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from framebench.adapters.base import State, Switches
from framebench.adapters.proof import Evidence, Proof, above, equal_to, expect, only
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.device import to_numpy
from framebench.adapters.torch.observe import count_unique_bytes, list_plain_tensors
from framebench.models.spec import Optimizer
from framebench.strategies.quantized import BLOCK, FEWEST_IN_8_BITS

switch = Switches()


def import_package(adapter: TorchAdapter, name: str, requirements: str = "torch") -> Any:
    """Import a module of a package next to PyTorch, and keep its version for the record.

    Raises LookupError if the package is not installed.
    """
    package = name.partition(".")[0]
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise LookupError(
            f"this interpreter cannot import {package}, of which requirements/{requirements}.txt "
            f"has a version: {error}"
        ) from error
    adapter.packages[package] = importlib.import_module(package).__version__
    return module


@switch
def adamw_8bit(adapter: TorchAdapter) -> Proof:
    """Keep AdamW's moments in 8 bits, by torchao.

    The update is computed from the moments before they are rounded. It is compiled, and nothing
    compiles under a dispatch mode, so the step is observed by the profiler instead.
    """
    optimizers = import_package(adapter, "torchao.optim")

    def make(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> Any:
        return optimizers.AdamW8bit(params, o.lr, o.betas, o.eps, o.weight_decay, **options)

    adapter.recipe.optimizer = make
    adapter.readings.uses_profiler = True
    return expect_codes(adapter)


def count_with_part(tensors: Iterable[torch.Tensor], dtype: torch.dtype) -> int:
    """Return how many tensors have a part of this type, such as the codes of 8-bit numbers."""
    return sum(any(part.dtype == dtype for part in list_plain_tensors(t)) for t in tensors)


def expect_codes(adapter: TorchAdapter) -> Proof:
    """Return a proof that all moments of every large weight are codes in 8 bits."""

    def count_codes() -> Evidence:
        sizes = [p.numel() for p in adapter.list_trained()]
        return {
            "large_weights": sum(size >= FEWEST_IN_8_BITS and size % BLOCK == 0 for size in sizes),
            "moments_in_8_bits": count_with_part(adapter.state_tensors(), torch.uint8),
        }

    moments = len(adapter.case.optimizer.states)
    proof = expect(moments_in_8_bits=(above(0), equal_to("large_weights", times=moments)))
    return proof.counting(count_codes)


@switch
def adamw_8bit_bnb(adapter: TorchAdapter) -> Proof:
    """Keep AdamW's moments in 8 bits, by bitsandbytes.

    Each moment of a weight is three tensors: codes, scales of blocks, and a table of codes. The
    moments of a small weight are plain numbers.
    """
    optimizers = import_package(adapter, "bitsandbytes.optim")
    functional = import_package(adapter, "bitsandbytes.functional")

    def make(o: Optimizer, params: Iterable[nn.Parameter], **options: Any) -> Any:
        settings = (o.lr, o.betas, o.eps, o.weight_decay)
        return optimizers.AdamW8bit(params, *settings, min_8bit_size=FEWEST_IN_8_BITS, **options)

    def read_moments(_: Iterator[State]) -> Iterator[State]:
        """Yield each moment dequantized, with the bytes of its codes, scales and table."""
        moments = {1: "first moment", 2: "second moment"}  # by their number in bitsandbytes' keys
        for name, p in adapter.model.named_parameters():
            state = adapter.optimizer.state.get(p)
            if not state:
                continue
            for number, kind in moments.items():
                values = state[f"state{number}"]
                tensors = [values]
                if f"absmax{number}" in state:
                    scales = state[f"absmax{number}"]
                    table = state[f"qmap{number}"]
                    tensors += [scales, table]
                    values = functional.dequantize_blockwise(
                        values, absmax=scales, code=table, blocksize=BLOCK
                    )
                nbytes = count_unique_bytes(tensors)
                yield State(kind, name=name, array=to_numpy(values), nbytes=nbytes)

    adapter.recipe.optimizer = make
    adapter.readings.states = read_moments
    return expect_codes(adapter)


@switch
def int8(adapter: TorchAdapter, products: bool) -> Proof:
    """Keep the weights of linear layers in 8 bits; with `products` also multiply in 8 bits.

    The weight that embedding and head share is not changed.
    """
    library = import_package(adapter, "torchao.quantization")

    def quantize(model: nn.Module) -> None:
        if products:
            library.quantize_(model, library.Int8DynamicActivationInt8WeightConfig())
        else:
            library.quantize_(model, library.Int8WeightOnlyConfig())

    adapter.recipe.on_model.append(quantize)

    def count_layers(observed: Evidence) -> Evidence:
        linear = [m for m in adapter.model.modules() if isinstance(m, nn.Linear)]
        return {
            "linear_layers": len(linear),
            "linear_layers_in_8_bits": count_with_part([m.weight for m in linear], torch.int8),
            "integer_products": observed["operators"].get("_int_mm", 0),
        }

    proof = expect(
        linear_layers=above(0),
        linear_layers_in_8_bits=equal_to("linear_layers"),
        integer_products=equal_to("linear_layers") if products else 0,
        products=only("float32"),
    )
    return proof.counting_from(count_layers)
