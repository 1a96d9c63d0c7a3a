"""Compute the numbers of small tensors that a program makes without chance, next to fake ones.

A program may compute a width, a depth or a rate by tensors, as torchvision's RegNet and timm's
models do (`torch.linspace(0, rate, depth)`), and then read the numbers. With invented ones it would
build another model. So the operators on small tensors run a second time with numbers, until one of
them needs a number that is not known: of a weight, a batch, or a random number.

The numbers belong to a storage, so that views share them, and what is written in place is seen by
all of them.

Integers that are drawn on the host are where a loader begins to read (`data[i : i + length]`), or
what a program chooses from a list, for which some draw by `uniform_`. So that such numbers agree
with each other, they are known too, as the smallest that can be drawn. On the GPU they are not,
where they may decide how many elements are chosen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch._prims_common import compute_required_storage_length
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from framebench.adapters.torch.modes import name_arguments

MOST_BYTES = 2**15  # of a storage whose numbers are computed
NUMBERS = "numbers_in_simulation"  # an attribute of storages: their numbers, in one dimension
IS_DRAWN = "is_drawn_in_simulation"  # another: whether its numbers were drawn, or follow from such
HOST = torch.device("cpu")
aten = torch.ops.aten
DRAWS = {  # returns what is taken for the numbers that an operator draws
    aten.randint.default: lambda high, size, **_: torch.zeros(size, dtype=torch.long),
    aten.randint.low: lambda low, high, size, **_: torch.full(size, low),
    aten.randperm.default: lambda count, **_: torch.arange(count),
    aten.uniform_.default: lambda tensor, low=0.0, high=1.0, **_: tensor.fill_(low),
}


class KnownNumbers(TorchDispatchMode):
    """Let a program on fake tensors read the numbers that are known."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and compute the numbers of its results if it can be done."""
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        if func is torch.ops.aten._local_scalar_dense.default:
            number = read_number(args[0])
            if number is not None:
                return number
            if is_drawing():
                return False
        out = func(*args, **kwargs)
        follow_numbers(func, args, kwargs, out)
        return out


def is_drawing() -> bool:
    """Return whether a function of `torch.nn.init` is running.

    Such a function reads an unknown number only to find out whether numbers are out of bounds and
    have to be drawn again, as `trunc_normal_` does. It gets False.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == nn.init.__file__:
            return True
        frame = frame.f_back
    return False


def read_number(tensor: Tensor) -> bool | int | float | None:
    """Return the number of a tensor of one element, or None if it is not known."""
    with _disable_current_modes():
        numbers = find_numbers(tensor)
        return None if numbers is None else numbers.item()  # type: ignore[no-any-return]


def find_numbers(tensor: Tensor) -> Tensor | None:
    """Return a tensor with the numbers of a fake one, or None if they are not known."""
    if tensor.layout != torch.strided:
        return None
    if not isinstance(tensor, FakeTensor):
        return tensor if tensor.device == HOST and tensor.nbytes <= MOST_BYTES else None
    numbers: Tensor | None = getattr(tensor.untyped_storage(), NUMBERS, None)
    if numbers is None or numbers.dtype != tensor.dtype:
        return None
    shape, stride, offset = tensor.shape, tensor.stride(), int(tensor.storage_offset())
    if compute_required_storage_length(shape, stride, offset) > numbers.numel():
        return None  # the storage has been resized
    return numbers.as_strided(shape, stride, offset)


def follow_numbers(func: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
    """Compute the numbers of an operator's results, if those of its arguments are known.

    Otherwise forget the numbers of the tensors that it writes into.
    """
    is_written = func._schema.is_mutable
    if not is_written and not is_small_and_new(out):
        return
    tensors = list_tensors((*args, *kwargs.values()))
    with _disable_current_modes():
        is_random = torch.Tag.nondeterministic_seeded in func.tags
        if func in DRAWS and not is_drawing():  # torch.nn.init may draw until it likes the numbers
            is_random = False
        is_known = not is_random and all(find_numbers(tensor) is not None for tensor in tensors)
        is_computed = is_known and compute(func, args, kwargs, out)
        if is_written and not is_computed:
            forget_numbers(func, args, kwargs)


def compute(func: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> bool:
    """Run an operator with numbers on the host, and return whether it could be run."""
    is_drawn = func in DRAWS or any(map(has_drawn_numbers, list_tensors((*args, *kwargs.values()))))
    args, kwargs = tree_map_only(Tensor, find_numbers, (tuple(args), kwargs))
    args, kwargs = tree_map_only(torch.device, lambda _: HOST, (args, kwargs))
    kwargs.pop("pin_memory", None)
    try:
        results = DRAWS.get(func, func)(*args, **kwargs)
    except Exception:  # whatever it is that the host cannot run
        return False
    if "empty" in func._schema.name:
        results.zero_()  # else it has what the memory held before, and no simulation is repeatable
    for result, fake in zip(tree_leaves(results), tree_leaves(out), strict=True):
        if isinstance(fake, FakeTensor) and fake.layout == torch.strided:
            if is_drawn and fake.device != HOST:
                return False
            keep_numbers(fake, result)
            setattr(fake.untyped_storage(), IS_DRAWN, is_drawn)
    return True


def has_drawn_numbers(tensor: Tensor) -> bool:
    """Return whether the numbers of a tensor were drawn, or follow from such."""
    if not isinstance(tensor, FakeTensor) or tensor.layout != torch.strided:
        return False
    return getattr(tensor.untyped_storage(), IS_DRAWN, False)


def keep_numbers(fake: FakeTensor, result: Tensor) -> None:
    """Keep a real result's numbers with the storage of the fake one, if their layouts agree."""
    storage = fake.untyped_storage()
    if result._is_zerotensor():  # of forward-mode autograd: it has no memory
        return
    if hasattr(storage, NUMBERS) or describe_layout(fake) != describe_layout(result):
        return
    copy = result.untyped_storage().clone()  # a real argument may be the result itself
    setattr(storage, NUMBERS, torch.empty(0, dtype=result.dtype).set_(copy))


def know_numbers(fake: Tensor, real: Tensor) -> None:
    """Let a program read the numbers of a fake tensor: those of a real one of the same layout.

    Of a larger tensor than `MOST_BYTES` they stay unknown.
    """
    with _disable_current_modes():
        vars(fake.untyped_storage()).pop(NUMBERS, None)
        if isinstance(fake, FakeTensor) and real.nbytes <= MOST_BYTES:
            keep_numbers(fake, real)


def describe_layout(tensor: Tensor) -> tuple[object, ...]:
    """Return a tensor's type, and where in its storage each of its numbers lies."""
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()


def forget_numbers(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Forget the numbers of what an operator writes into."""
    values = name_arguments(func, args, kwargs)
    for argument in func._schema.arguments:
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        for tensor in list_tensors([values.get(argument.name)] if is_written else []):
            if isinstance(tensor, FakeTensor) and tensor.layout == torch.strided:
                vars(tensor.untyped_storage()).pop(NUMBERS, None)


def is_small_and_new(out: Any) -> bool:
    """Return whether an operator's first result is small, and its storage has no numbers yet."""
    first_result = next(list_tensors((out,)), None)
    if not isinstance(first_result, FakeTensor) or first_result.layout != torch.strided:
        return False
    storage = first_result.untyped_storage()
    return storage.nbytes() <= MOST_BYTES and not hasattr(storage, NUMBERS)


def list_tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    """Yield the tensors among some arguments, and in lists of tensors among them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from list_tensors(value)
