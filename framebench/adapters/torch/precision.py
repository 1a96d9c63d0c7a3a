"""How PyTorch switches on the strategies of `suite/catalog/precision.py`, and what proves that they were on. See `base.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from framebench.adapters import rounding
from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.process import TF32_AT_IMPORT
from framebench.models.spec import OWN

switch = Switches()


def only(dtype: str, storage: str) -> Proof:
    """Every product of the observed step took this type; weights and optimizer states lie in the other."""
    return lambda e: real(e["products"]) == {dtype} and real(e["weight_dtypes"]) == {storage} >= real(e["state_dtypes"])


def real(dtypes: Iterable[str]) -> set[str]:
    """Without complex numbers, which have no lower precision."""
    return set(dtypes) - {"complex64"}


def _errors_of_products(run: TorchAdapter) -> dict[str, float]:
    """In the context of a forward pass of this case."""

    def called(operator: Any) -> rounding.Multiply:
        def multiply(*operands: np.ndarray) -> np.ndarray:
            with torch.no_grad(), run.context():
                result: Tensor = operator(*(torch.from_numpy(a).to(run.where) for a in operands))
            return result.float().cpu().numpy()

        return multiply

    return rounding.errors(called(torch.mm), called(F.conv2d))


def _single(e: Evidence) -> bool:
    """Nothing but float32. What a CUDA graph replays shows no operators."""
    return real(e["products"]) <= {"float32"} and real([*e["weight_dtypes"], *e["state_dtypes"]]) <= {"float32"}


def _of_products(run: TorchAdapter, as_asked: Callable[[Evidence], bool]) -> Proof:
    """Nothing but float32, and products that are rounded as they should be."""

    def proof(e: Evidence) -> bool:
        e |= _errors_of_products(run)
        return _single(e) and as_asked(e)

    return proof


@switch
def fp32(run: TorchAdapter) -> Proof:
    """A user's file may cast products by itself: then weights and states tell that nothing else does."""
    own: Any = run.case.spec
    if run.case.workload == OWN and own.facts.get("narrow"):
        return lambda e: real(e["weight_dtypes"]) == {"float32"} >= real(e["state_dtypes"])
    return _of_products(run, rounding.exact)


@switch
def amp_bf16(run: TorchAdapter) -> Proof:
    """Fresh per forward pass: autocast caches the cast weights until it is left."""
    run.recipe.contexts.append(partial(torch.autocast, run.where.type, torch.bfloat16))
    return only("bfloat16", storage="float32")


@switch
def half(run: TorchAdapter, dtype: str) -> Proof:
    run.recipe.dtype = getattr(torch, dtype)
    return only(dtype, storage=dtype)


@switch
def tf32(run: TorchAdapter) -> Proof:
    run.process.tf32 = (True, True)
    return _of_products(run, rounding.rounded)


@switch
def default(run: TorchAdapter) -> Proof:
    """Where it rounds nothing it is `fp32` once more, and proves nothing."""
    run.process.tf32 = TF32_AT_IMPORT
    return _of_products(run, lambda e: not rounding.exact(e))


@switch
def amp_fp16(run: TorchAdapter) -> Proof:
    """The scale starts low enough that no step has to be skipped."""
    run.recipe.contexts.append(partial(torch.autocast, run.where.type, torch.float16))
    run.recipe.scaler = torch.amp.GradScaler(run.where.type, init_scale=2.0**10)

    def proof(e: Evidence) -> bool:
        e["scale"] = _scale_in_use(run)
        return only("float16", storage="float32")(e) and e["scale"] > 1

    return proof


def _scale_in_use(run: TorchAdapter) -> float:
    """Of one more step: a gradient as the backward pass leaves it, against what the optimizer gets of it. 0 if it gets nothing.
    A fused optimizer divides by itself."""
    weight = next(p for p in reversed(run.parameters()) if p.requires_grad)
    left: list[float] = []
    used: list[float] = []

    def norm() -> float:
        assert weight.grad is not None
        return float(weight.grad.norm())

    def on_step(optimizer: Any, *_: Any) -> None:
        used.append(norm() / float(1 if (scale := getattr(optimizer, "grad_scale", None)) is None else scale))

    with ExitStack() as hooks:
        hooks.callback(weight.register_post_accumulate_grad_hook(lambda _: left.append(norm())).remove)
        hooks.callback(run.optimizer.register_step_pre_hook(on_step).remove)
        run.one_step()
    return left[-1] / used[0] if used and used[0] else 0.0
