"""Provide the contexts in which steps are verified: without randomness, and in float64 throughout.

Under strategies that draw in another order than the baseline, such as micro-batches, random draws
are replaced by their means, and dropout does nothing. A dispatch mode lies below autograd, so that
the second run of a checkpointed block sees it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

NARROWER_THAN_FLOAT64 = (torch.float32, torch.bfloat16, torch.float16, torch.complex64)
WIDENED = {torch.float32: torch.float64, torch.complex64: torch.complex128}
AXES_OF_IMAGES = (4, 5)  # of tensors that channels_last and channels_last_3d put in another order
# The number that stands for an operator's mean, whatever the parameters of its distribution are.
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


@contextmanager
def use_default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Create tensors in this type in this context, unless a call asks for another one."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def set_mode(model: nn.Module, evaluates: bool) -> nn.Module:
    """Put a model into evaluation or training, and return it.

    One that is in training already keeps the parts that its author put into evaluation, such as a
    teacher, or batch norms that are frozen. One that is loaded may be in evaluation as a whole.
    """
    if model.training and not evaluates:
        return model
    return model.train(not evaluates)


def name_operator(operator: Any) -> str:
    """Return an operator's name without its namespace, such as `native_dropout`."""
    name: str = operator._schema.name
    return name.removeprefix("aten::")


def name_arguments(operator: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operator's call by their names."""
    names = [argument.name for argument in operator._schema.arguments]
    return dict(zip(names, args)) | kwargs


class OperatorMode(TorchDispatchMode):
    """Context in which each operator of PyTorch is run by the method `run_operator`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator by `run_operator`, whose `kwargs` are never None."""
        return self.run_operator(func, args, kwargs or {})

    def run_operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator in the way that the subclass is for."""
        raise NotImplementedError


class MeansForDraws(OperatorMode):
    """Context in which random operators return the mean of their distribution."""

    def run_operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator, and replace random numbers in its result."""
        name = name_operator(func)
        if name == "native_dropout":
            inputs, *_ = args
            return inputs.clone(), torch.ones_like(inputs, dtype=torch.bool)
        out = func(*args, **kwargs)
        mean = find_mean(name, name_arguments(func, args, kwargs))
        if isinstance(out, Tensor):
            if isinstance(mean, Tensor):
                out.copy_(mean)
            elif mean is not None:
                out.fill_(mean)
        return out


def find_mean(operator: str, arguments: dict[str, Any]) -> float | Tensor | None:
    """Return the mean of a random operator's distribution, or None for other operators.

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
        low = arguments.get("low", arguments.get("from", 0)) or 0
        high = arguments.get("high", arguments.get("to"))
        return 0 if high is None else int(low + high) // 2  # the range may have no end
    if operator == "randperm":
        return torch.arange(arguments["n"])
    if operator == "multinomial":
        most_likely = arguments["self"].argsort(-1, descending=True)
        return most_likely[..., : arguments["num_samples"]]
    if operator == "poisson":
        return arguments["self"].round()
    return None


class DrawsByLayout(OperatorMode):
    """Context that notes in `has_drawn` whether numbers are drawn in the order of image memory.

    An operator that gets images and draws, as dropout does, gives other numbers to each place in
    another memory format. One that gets a shape alone does not.
    """

    def __init__(self) -> None:
        """Begin with `has_drawn` as False."""
        super().__init__()
        self.has_drawn = False

    def run_operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator, and look at the generator's state before and after."""
        has_images = any(is_image(leaf) for leaf in tree_leaves((args, kwargs)))
        if self.has_drawn or not has_images:
            return func(*args, **kwargs)
        before = torch.get_rng_state()
        result = func(*args, **kwargs)
        self.has_drawn = not torch.equal(before, torch.get_rng_state())
        return result


def is_image(argument: Any) -> bool:
    """Return whether an operator's argument is a tensor that a memory format orders."""
    return isinstance(argument, Tensor) and argument.ndim in AXES_OF_IMAGES


@contextmanager
def widen_modules(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Convert the frozen modules among these to float64 in this context, such as a loss's teacher.

    Converting float32 numbers to float64 and back changes none of them.
    """
    narrow = [module for module in modules if is_frozen_in_float32(module)]
    with _disable_current_modes():
        for module in narrow:
            module.double()
    try:
        yield
    finally:
        with _disable_current_modes():
            for module in narrow:
                module.float()


def widen_attributes(model: nn.Module) -> None:
    """Convert tensors that are plain attributes of a model's modules from float32 to float64.

    `Module.double` converts weights and buffers, and leaves these out. A tensor that several
    modules share stays shared, and one that asks for a gradient is not converted.
    """
    widened: dict[Tensor, Tensor] = {}
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if not can_widen(value):
                continue
            if value not in widened:
                widened[value] = value.to(WIDENED[value.dtype])
            vars(module)[name] = widened[value]


@contextmanager
def widen_globals(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Convert tensors that are globals of a user's modules from float32 to float64 in this context.

    Such is a table of a schedule's rates. What is written into them in the context stays.
    """
    narrow: list[tuple[ModuleType, str, Tensor]] = []
    widened: dict[Tensor, Tensor] = {}
    with _disable_current_modes():
        for module in modules:
            for name, value in list(vars(module).items()):
                if can_widen(value):
                    narrow.append((module, name, value))
                    widened[value] = widened.get(value, value.to(WIDENED[value.dtype]))
                    setattr(module, name, widened[value])
    try:
        yield
    finally:
        with _disable_current_modes():
            for module, name, value in narrow:
                value.copy_(widened[value])
                if getattr(module, name, None) is widened[value]:
                    setattr(module, name, value)


def can_widen(value: Any) -> bool:
    """Return whether something is a tensor of numbers in float32 that is not trained."""
    return isinstance(value, Tensor) and not value.requires_grad and value.dtype in WIDENED


def is_frozen_in_float32(module: nn.Module) -> bool:
    """Return whether a module has weights, all of them in float32 and none of them trained."""
    weights = list(module.parameters())
    tensors = [*weights, *module.buffers()]
    types = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    return types == {torch.float32} and not any(weight.requires_grad for weight in weights)


class WidenedCasts(TorchFunctionMode):
    """Context in which casts to float32 become casts to float64, and complex ones likewise.

    People write `logits.float()` to raise a lower precision before a loss, and not to lower a
    higher one.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, with float64 for float32 among its arguments."""
        if func is torch.Tensor.float:
            return args[0].double()
        if getattr(func, "__name__", "") == "cfloat":
            return args[0].cdouble()
        widened = [_widen(arg) for arg in args]
        named = {name: _widen(arg) for name, arg in (kwargs or {}).items()}
        return func(*widened, **named)


def _widen(argument: Any) -> Any:
    """Return the wider type for float32 or complex64, and any other argument unchanged."""
    return WIDENED.get(argument, argument) if isinstance(argument, torch.dtype) else argument


class NarrowResults(OperatorMode):
    """Context that notes in `operation` the first one with a result narrower than float64.

    A scalar may be narrow: PyTorch keeps counts of steps, for instance, in float32.
    """

    def __init__(self) -> None:
        """Begin with an empty name, which stands for no narrow result."""
        super().__init__()
        self.operation = ""

    def run_operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator and look at its results."""
        result = func(*args, **kwargs)
        if not self.operation:
            for leaf in tree_leaves(result):
                if isinstance(leaf, Tensor) and leaf.ndim and leaf.dtype in NARROWER_THAN_FLOAT64:
                    dtype = str(leaf.dtype).removeprefix("torch.")
                    self.operation = f"{name_operator(func)} in {dtype}"
                    break
        return result
