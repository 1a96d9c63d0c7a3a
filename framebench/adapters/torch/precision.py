"""PyTorch's switches for the strategies of `framebench/strategies/precision.toml`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from framebench.adapters import rounding, user_blocks
from framebench.adapters.base import Switches
from framebench.adapters.proof import Evidence, Proof, above, expect, including, none_but, only
from framebench.adapters.replacing import replace_attributes
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.device import TF32_AT_IMPORT
from framebench.adapters.torch.profiled import MatmulPlaces
from framebench.suite.trees import call_with

switch = Switches()


# complex numbers have no lower precision
only_real = partial(only, ignoring=("complex64",))
no_real_but = partial(none_but, ignoring=("complex64",))


def expect_types(products: str, storage: str) -> Proof:
    """Return a proof that every matmul took one type, and weights and states have the other."""
    return expect(
        products=only_real(products),
        weight_dtypes=only_real(storage),
        state_dtypes=no_real_but(storage),
    )


def _measure_errors(adapter: TorchAdapter) -> Evidence:
    """Measure how matmuls are rounded in the context of a forward pass of this case."""

    def multiply(operator: Any, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        a = torch.from_numpy(left).to(adapter.torch_device)
        b = torch.from_numpy(right).to(adapter.torch_device)
        with torch.no_grad(), adapter.context():
            result: Tensor = operator(a, b)
        return result.float().cpu().numpy()

    return rounding.measure_errors(partial(multiply, torch.mm), partial(multiply, F.conv2d))


def expect_float32(adapter: TorchAdapter, errors: Proof) -> Proof:
    """Return a proof that there is nothing but float32, and that matmuls are rounded as expected.

    The proof holds without any matmul, since a CUDA graph that is replayed shows no operators.

    Args:
        adapter: The case.
        errors: A proof on the errors that `rounding.measure_errors` returns.
    """
    proof = expect(
        products=no_real_but("float32"),
        weight_dtypes=no_real_but("float32"),
        state_dtypes=no_real_but("float32"),
    )
    return (proof & errors).counting(lambda: _measure_errors(adapter))


@switch
def fp32(adapter: TorchAdapter) -> Proof:
    """Compute in float32, without TensorFloat-32.

    If a user's file casts operands by itself, the proof is that nothing else does.
    """
    if not adapter.case.workload_spec.facts.get("narrow"):
        return expect_float32(adapter, rounding.EXACT)

    def find_narrowed() -> Evidence:
        plain, observed = find_places(adapter, nullcontext)
        return {"narrowed_at": sorted(plain.in_float32 - observed.in_float32)}

    proof = expect(
        weight_dtypes=only_real("float32"),
        state_dtypes=no_real_but("float32"),
        narrowed_at=[],
    )
    return proof.counting(find_narrowed)


def find_places(
    adapter: TorchAdapter, context: Callable[[], AbstractContextManager[Any]]
) -> tuple[MatmulPlaces, MatmulPlaces]:
    """Return where a user's model makes matmuls, and in which types.

    The first are those of a forward pass in this context without any strategy, the second those of
    a step.
    """
    with replace_attributes(adapter.model, block_runner=user_blocks.call_block):
        adapter.seed()
        with context(), MatmulPlaces(adapter.model) as plain:
            compute_plainly(adapter)
    adapter.seed()
    with MatmulPlaces(adapter.model) as observed:
        adapter.one_step()
    return plain, observed


def compute_plainly(adapter: TorchAdapter) -> None:
    """Make a forward pass of a user's model and its loss, or the step of the user's file."""
    if adapter.recipe.step == adapter.file_step:
        adapter.model_module.run_step(adapter.model, adapter.inputs, adapter.optimizer)
        return
    x, y = adapter.inputs
    with torch.set_grad_enabled(adapter.case.scenario_spec.trains):
        output = call_with(adapter.model, x)
        if adapter.case.scenario_spec.trains:
            adapter.model_module.loss(output, adapter.find_target((x, y)))


def expect_autocast(adapter: TorchAdapter, products: str) -> Proof:
    """Return a proof that autocast gave matmuls this type.

    In the suite's models, and where a user's file casts by itself, these are all matmuls. In other
    user models some may stay in float32: PyTorch's attention with dropout widens its operands on a
    CPU, and a file may leave autocast for a part. They must be those that stay in float32 when
    only the whole forward pass runs under autocast, and no more of them in each place. A compiled
    step shows no places: there nothing is proven of a matmul in float32.
    """
    if not adapter.is_user_model or adapter.case.workload_spec.facts.get("narrow"):
        return expect_types(products, storage="float32")

    def find_widened(counted: Evidence) -> Evidence:
        if adapter.readings.uses_profiler:
            others = sorted({*counted["products"]} - {products})
            return {"widened_at": [f"{name}, in places that are not visible" for name in others]}
        autocast = partial(torch.autocast, adapter.torch_device.type, getattr(torch, products))
        plain, observed = find_places(adapter, autocast)
        # of matmuls inside of fused layers only `observed` has the types
        types = Counter(counted["products"]) | observed.dtypes
        return {"products": dict(types), "widened_at": list_widened(adapter, plain, observed)}

    proof = expect(
        products=including(products),
        weight_dtypes=only_real("float32"),
        state_dtypes=no_real_but("float32"),
        widened_at=[],
    )
    return proof.counting_from(find_widened)


def list_widened(adapter: TorchAdapter, plain: MatmulPlaces, observed: MatmulPlaces) -> list[str]:
    """Return the places where a step makes more matmuls in float32 than plain passes would.

    Args:
        adapter: The adapter that made the observed step.
        plain: The counts of a plain step of the file, or else of one plain forward pass.
        observed: The counts of the step. A recomputation may run a block in part, or more than
            once, so of its matmuls only the places are compared.
    """
    passes = 1
    if adapter.recipe.step != adapter.file_step:
        passes = adapter.micro_batches * adapter.loss_evaluations
    allowed = Counter({place: passes * count for place, count in plain.in_float32.items()})
    too_many = observed.in_float32 - allowed
    plain_places = plain.in_float32.keys() | plain.repeated_in_float32.keys()
    new_places = observed.repeated_in_float32.keys() - plain_places
    return sorted(too_many.keys() | new_places)


@switch
def amp_bf16(adapter: TorchAdapter) -> Proof:
    """Enter autocast for each forward pass: it caches the cast weights until it is left."""
    device = adapter.torch_device.type
    adapter.recipe.contexts.append(partial(torch.autocast, device, torch.bfloat16))
    return expect_autocast(adapter, "bfloat16")


@switch
def half(adapter: TorchAdapter, dtype: str) -> Proof:
    """Keep weights, inputs and states in a type of 16 bits."""
    adapter.recipe.dtype = getattr(torch, dtype)
    return expect_types(dtype, storage=dtype)


@switch
def tf32(adapter: TorchAdapter) -> Proof:
    """Let matmuls and convolutions round their operands to TensorFloat-32."""
    adapter.process.tf32 = (True, True)
    return expect_float32(adapter, rounding.ROUNDED)


@switch
def default(adapter: TorchAdapter) -> Proof:
    """Leave the precision of matmuls at PyTorch's default.

    If the default does not round, the strategy is the same as `fp32`, and the proof fails.
    """
    adapter.process.tf32 = TF32_AT_IMPORT
    return expect_float32(adapter, rounding.SOME_ROUNDED)


@switch
def amp_fp16(adapter: TorchAdapter) -> Proof:
    """Compute in float16 by autocast, and scale the loss.

    The initial scale is low enough that no gradient overflows, which would skip a step.
    """
    device = adapter.torch_device.type
    adapter.recipe.contexts.append(partial(torch.autocast, device, torch.float16))
    adapter.recipe.scaler = torch.amp.GradScaler(device, init_scale=2.0**10)
    proof = expect_autocast(adapter, "float16") & expect(scale=above(1))
    return proof.counting(lambda: {"scale": _measure_scale(adapter)})


def _measure_scale(adapter: TorchAdapter) -> float:
    """Return the norm of a gradient with the scaler over its norm with a disabled scaler."""
    weight = adapter.list_trained()[-1]

    def measure_norm() -> float:
        adapter.backward_pass()
        assert weight.grad is not None
        return float(weight.grad.norm())

    scaled = measure_norm()
    disabled = torch.amp.GradScaler(adapter.torch_device.type, enabled=False)
    with replace_attributes(adapter.recipe, scaler=disabled):
        unscaled = measure_norm()
    return scaled / unscaled if unscaled else 0.0
