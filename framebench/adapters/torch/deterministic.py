"""Make a step without randomness: each random draw is replaced by its mean.

Dropout does nothing then. Steps are verified like this under strategies that draw in another order
than the baseline, such as micro-batches or another memory format. It is a dispatch mode, which lies
below autograd: the second run of a checkpointed block sees it too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# What stands for the mean, whatever the parameters of the distribution are.
MEANS = {
    "randn": 0.0,
    "randn_like": 0.0,
    "cauchy_": 0.0,
    "rand": 0.5,
    "rand_like": 0.5,
    "exponential_": 1.0,
    "geometric_": 1.0,
    "log_normal_": 1.0,
}


class MeansForDraws(TorchDispatchMode):
    """A context in which operators return the mean of what they would draw."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and replace random numbers in its result."""
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name == "native_dropout":
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        out = func(*args, **kwargs)
        names = [argument.name for argument in func._schema.arguments]
        mean = find_mean(name, dict(zip(names, args)) | kwargs)
        if isinstance(out, Tensor):
            if isinstance(mean, Tensor):
                out.copy_(mean)
            elif mean is not None:
                out.fill_(mean)
        return out


def find_mean(operator: str, arguments: dict[str, Any]) -> float | Tensor | None:
    """Return the mean of what a random operator draws, or None if the operator draws nothing.

    `randperm` gives the numbers in order, and `multinomial` the most likely ones.
    """
    if operator in MEANS:
        return MEANS[operator]
    if operator == "bernoulli" and "p" not in arguments:
        return arguments["self"]  # a tensor of probabilities
    if operator in ("bernoulli", "bernoulli_"):
        return arguments.get("p", 0.5)
    if operator == "uniform_":
        return (arguments.get("from", 0.0) + arguments.get("to", 1.0)) / 2
    if operator in ("normal", "normal_"):
        return arguments.get("mean", 0.0)
    if operator.startswith("randint") or operator == "random_":
        return _find_middle(arguments)
    if operator == "randperm":
        return torch.arange(arguments["n"])
    if operator == "multinomial":
        most_likely = arguments["self"].argsort(-1, descending=True)
        return most_likely[..., : arguments["num_samples"]]
    if operator == "poisson":
        return arguments["self"].round()
    return None


def _find_middle(arguments: dict[str, Any]) -> int:
    """Return the middle of the range of random integers; 0 for a range without an end."""
    low = arguments.get("low", arguments.get("from", 0)) or 0
    high = arguments.get("high", arguments.get("to"))
    return 0 if high is None else int(low + high) // 2
