"""A step without chance: what PyTorch draws is replaced by what it draws on average, so that dropout does nothing.

Some strategies draw in another order than the baseline: micro-batches one after the other, another memory format place by
place. Their steps are verified like this. It is a dispatch mode, below autograd: checkpointing's second run sees it, too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ZERO = {"randn", "randn_like", "cauchy_"}
HALF = {"rand", "rand_like"}
ONE = {"exponential_", "geometric_", "log_normal_"}


class Still(TorchDispatchMode):
    """Nothing is random in here."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name == "native_dropout":
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        out = func(*args, **(kwargs or {}))
        mean = average(name, func, args, kwargs or {})
        if mean is not None and isinstance(out, Tensor):
            out.copy_(mean) if isinstance(mean, Tensor) else out.fill_(mean)
        return out


def average(name: str, func: Any, args: Any, kwargs: Any) -> Any:
    """Of what the operator draws; None for one that draws nothing."""
    if name in ZERO or name in HALF or name in ONE:
        return 0.0 if name in ZERO else 0.5 if name in HALF else 1.0
    named = {a.name: value for a, value in zip(func._schema.arguments, args)} | kwargs
    if name in ("bernoulli", "bernoulli_"):
        return named.get("p", 0.5) if name == "bernoulli_" or "p" in named else named["self"]
    if name == "uniform_":
        return (named.get("from", 0.0) + named.get("to", 1.0)) / 2
    if name in ("normal", "normal_"):
        return named.get("mean", 0.0)
    if name.startswith("randint") or name == "random_":
        return _middle(named)
    if name == "randperm":
        return torch.arange(named["n"])
    if name == "multinomial":
        return named["self"].argsort(-1, descending=True)[..., : named["num_samples"]]
    return named["self"].round() if name == "poisson" else None


def _middle(named: dict[str, Any]) -> int:
    low, high = named.get("low", named.get("from", 0)) or 0, named.get("high", named.get("to"))
    return int(low + high) // 2 if high is not None else 0
