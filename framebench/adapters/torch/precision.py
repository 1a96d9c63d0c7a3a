"""How PyTorch switches on the strategies of `framebench/strategies/precision.py`, and what proves that they were on."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from framebench.adapters import rounding
from framebench.adapters.base import Switches
from framebench.adapters.proof import Evidence, Proof, above, expect, none_but, only
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.process import TF32_AT_IMPORT
from framebench.models.spec import OWN

switch = Switches()


# complex numbers have no lower precision
only_real = partial(only, ignoring=("complex64",))
no_real_but = partial(none_but, ignoring=("complex64",))


def expect_types(products: str, storage: str) -> Proof:
    """Return a proof that every product took one type, and that weights and optimizer states have the other."""
    return expect(
        products=only_real(products),
        weight_dtypes=only_real(storage),
        state_dtypes=no_real_but(storage),
    )


def _measure_errors(run: TorchAdapter) -> Evidence:
    """Measure how products are rounded in the context of a forward pass of this case."""

    def called(operator: Any) -> rounding.Multiply:
        def multiply(*operands: np.ndarray) -> np.ndarray:
            with torch.no_grad(), run.context():
                result: Tensor = operator(*(torch.from_numpy(a).to(run.where) for a in operands))
            return result.float().cpu().numpy()

        return multiply

    return rounding.measure_errors(called(torch.mm), called(F.conv2d))


def expect_float32(run: TorchAdapter, errors: Proof) -> Proof:
    """Return a proof that nothing but float32 is there, and that products are rounded as they should be.

    What a CUDA graph replays shows no operators: so there may be no products at all.
    """
    proof = expect(
        products=no_real_but("float32"),
        weight_dtypes=no_real_but("float32"),
        state_dtypes=no_real_but("float32"),
    )
    return (proof & errors).counting(lambda _: _measure_errors(run))


@switch
def fp32(run: TorchAdapter) -> Proof:
    """Compute in float32, without TensorFloat-32.

    A user's file may cast products by itself: then weights and states tell that nothing else does.
    """
    own: Any = run.case.spec
    if run.case.workload == OWN and own.facts.get("narrow"):
        return expect(weight_dtypes=only_real("float32"), state_dtypes=no_real_but("float32"))
    return expect_float32(run, rounding.EXACT)


@switch
def amp_bf16(run: TorchAdapter) -> Proof:
    """Enter autocast anew for each forward pass: it caches the cast weights until it is left."""
    run.recipe.contexts.append(partial(torch.autocast, run.where.type, torch.bfloat16))
    return expect_types("bfloat16", storage="float32")


@switch
def half(run: TorchAdapter, dtype: str) -> Proof:
    run.recipe.dtype = getattr(torch, dtype)
    return expect_types(dtype, storage=dtype)


@switch
def tf32(run: TorchAdapter) -> Proof:
    run.process.tf32 = (True, True)
    return expect_float32(run, rounding.ROUNDED)


@switch
def default(run: TorchAdapter) -> Proof:
    """Leave the precision of products as PyTorch has it.

    Where that rounds nothing it is `fp32` once more, and proves nothing.
    """
    run.process.tf32 = TF32_AT_IMPORT
    return expect_float32(run, rounding.SOME_ROUNDED)


@switch
def amp_fp16(run: TorchAdapter) -> Proof:
    """Scale the loss, from a factor on that is low enough for no step to be skipped."""
    run.recipe.contexts.append(partial(torch.autocast, run.where.type, torch.float16))
    run.recipe.scaler = torch.amp.GradScaler(run.where.type, init_scale=2.0**10)
    proof = expect_types("float16", storage="float32") & expect(scale=above(1))
    return proof.counting(lambda _: {"scale": _measure_scale(run)})


def _measure_scale(run: TorchAdapter) -> float:
    """Return how much larger a gradient is when the backward pass leaves it than when the optimizer gets it.

    That is of one more step, and 0 if the optimizer gets nothing. A fused optimizer divides by itself.
    """
    weight = next(p for p in reversed(run.parameters()) if p.requires_grad)
    left: list[float] = []
    used: list[float] = []

    def norm() -> float:
        assert weight.grad is not None
        return float(weight.grad.norm())

    def on_step(optimizer: Any, *_: Any) -> None:
        scale = getattr(optimizer, "grad_scale", None)
        used.append(norm() if scale is None else norm() / float(scale))

    with ExitStack() as hooks:
        hooks.callback(weight.register_post_accumulate_grad_hook(lambda _: left.append(norm())).remove)
        hooks.callback(run.optimizer.register_step_pre_hook(on_step).remove)
        run.one_step()
    return left[-1] / used[0] if used and used[0] else 0.0
