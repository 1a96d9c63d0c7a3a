"""Do what PyTorch does on a GPU above its kernels, where fake tensors take another way.

A view that is overwritten, such as the result of an instance norm by a ReLU in place, gets the
derivative `AsStridedBackward0` (`VariableHooks::grad_fn` in torch/csrc/autograd/variable.cpp). It
puts the gradient into new memory (`as_strided_backward` in
torch/csrc/autograd/FunctionsManual.cpp). A fake view keeps its own derivative, and most of those
copy nothing.

`one_hot` writes ones into zeros. With fake tensors it compares each class instead, which takes a
truth value for each (ATen/native/Onehot.cpp).

A program that names its device `cuda`, or calls `.cuda()`, gets the simulated device.

Recurrent layers (`torch.nn.LSTM`, `GRU` and `RNN`) run in cuDNN on a GPU, which keeps memory of its
own for the backward pass and cannot be asked how much without a GPU. Here they run step by step, as
on a GPU with cuDNN switched off (ATen/native/RNN.cpp), and the answer says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby, product
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from framebench.adapters.torch.fake_numbers import find_numbers
from framebench.devices.simulation.torch_choices import SPARSE
from framebench.devices.simulation.torch_cuda import check_index
from framebench.devices.simulation.torch_device import SIMULATED, is_on_gpu, take_place_of_cuda
from framebench.devices.simulation.torch_norms import normalize_batch
from framebench.devices.simulation.torch_watch import Watch

VIEWS = (
    "Alias",
    "Detach",
    "Permute",
    "ReshapeAlias",
    "Squeeze",
    "T",
    "Transpose",
    "UnsafeView",
    "Unsqueeze",
    "View",
)
# derivatives that copy nothing, such as `ViewBackward0`; all others make new memory
COPY_NOTHING = {f"{view}Backward{form}" for view, form in product(VIEWS, range(3))}

PINNED = "is_pinned_in_simulation"  # an attribute of tensors
PAD = torch._C._VariableFunctions._pad_packed_sequence
# the functions of recurrent layers that cuDNN has
RECURRENT = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)


class EagerOnGpu(TorchFunctionMode):
    """Run functions on the simulated GPU as a real one would."""

    def __init__(self, watch: Watch) -> None:
        """Let `watch` learn of recurrent layers, whose operators do not tell of them."""
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch as a GPU would run it."""
        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)  # a program may compare it with the device of a tensor
        args = tuple(map(take_place_of_cuda, args))
        kwargs = {name: take_place_of_cuda(value) for name, value in kwargs.items()}
        if func in ATTRIBUTES:
            return ATTRIBUTES[func](args[0])
        if kwargs.get("sparse") or is_sparse_on_gpu(func, args, kwargs):
            raise NotImplementedError(SPARSE)
        if func in READS and isinstance(args[0], FakeTensor):
            return READS[func](*args)
        if func is torch.Tensor.cuda:
            check_index(kwargs.get("device", args[1] if len(args) > 1 else None))
            func, args, kwargs = torch.Tensor.to, (args[0], SIMULATED), {}
        out = self.run_eager(func, args, kwargs)
        if kwargs.get("pin_memory"):
            setattr(out, PINNED, True)
        return out

    def run_eager(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call a function on tensors of the simulated device as a GPU would run it."""
        first = args[0] if args else None
        if func is Tensor.to and args[0].layout == torch.sparse_coo:
            return move_sparse(*args, **kwargs)
        if not is_on_gpu(first):
            return func(*args, **kwargs)
        if func is functional.one_hot:
            return make_one_hot(*args, **kwargs)
        if func is PAD:
            return pad_packed_sequence(*args)
        if func is functional.ctc_loss:
            return compute_ctc_loss(*args, **kwargs)
        if func is functional.batch_norm:
            return normalize_batch(*args, **kwargs)
        if func in RECURRENT and torch.backends.cudnn.enabled:
            self.watch.has_recurrent = True
        # on a GPU the gradient of a view that was overwritten is copied (see the module)
        if not torch.is_grad_enabled() or not first._is_view():
            return func(*args, **kwargs)
        version = first._version
        out = func(*args, **kwargs)
        was_overwritten = first._version != version
        if was_overwritten:
            copy_gradient(first)
        return out


def is_sparse_on_gpu(func: Any, args: Any, kwargs: Any) -> bool:
    """Return whether a function makes or takes a sparse tensor on the simulated device."""
    if "sparse" not in getattr(func, "__name__", ""):
        return False
    return kwargs.get("device") == SIMULATED or any(map(is_on_gpu, args))


def move_sparse(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return a copy of a sparse tensor by `Tensor.to`, as its parts are copied."""
    values = tensor._values().to(*args, **kwargs)
    indices = tensor._indices().to(values.device)
    return torch.sparse_coo_tensor(indices, values, tensor.shape, check_invariants=False)


def format_tensor(tensor: Tensor, form: str) -> str:
    """Return a fake tensor as a formatted string has it: its number, or its shape."""
    return format(tensor.item(), form) if tensor.dim() == 0 else str(tensor)


def make_array(tensor: Tensor, *_: Any) -> np.ndarray:
    """Return an array of the numbers of a fake tensor, which are 1 if not known.

    Raises TypeError, as PyTorch does, for a tensor on the GPU or a type that NumPy does not have.
    """
    if is_on_gpu(tensor):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")
    with _disable_current_modes():
        numbers = find_numbers(tensor)
        if numbers is None:
            numbers = torch.ones(tensor.shape, dtype=tensor.dtype)
        return numbers.numpy().copy()


# what reads the numbers of a tensor
READS: dict[Any, Callable[..., Any]] = {
    Tensor.__format__: format_tensor,
    Tensor.numpy: make_array,
    Tensor.__array__: make_array,
}


def pin_memory(tensor: Tensor) -> Tensor:
    """Return a copy of a tensor on the host that says that it is pinned."""
    copy = tensor.clone()
    setattr(copy, PINNED, True)
    return copy


def is_pinned(tensor: Tensor) -> bool:
    """Return whether a tensor says that it is pinned."""
    return bool(getattr(tensor, PINNED, False))


# functions of tensors that the device answers by itself
ATTRIBUTES: dict[Any, Callable[[Tensor], Any]] = {
    Tensor.pin_memory: pin_memory,
    Tensor.is_pinned: is_pinned,
    Tensor.is_cuda.__get__: is_on_gpu,  # type: ignore[attr-defined]  # reads the attribute
}


def make_one_hot(classes: Tensor, num_classes: int = -1) -> Tensor:
    """Return zeros with a one at each class. Raises ValueError without a number of classes."""
    if num_classes < 1:
        raise ValueError(
            "one_hot looks for the largest class, and without numbers there is none: name "
            "num_classes"
        )
    zeros = torch.zeros(*classes.shape, num_classes, dtype=classes.dtype, device=classes.device)
    return zeros.scatter_(-1, classes.unsqueeze(-1), 1)


def pad_packed_sequence(
    packed: Tensor, batch_sizes: Tensor, batch_first: bool, value: float, length: int
) -> tuple[Tensor, Tensor]:
    """Return padded sequences, (steps, sequences, ...) unless `batch_first`, and their lengths.

    A port of `_pad_packed_sequence` in ATen/native/PackedSequence.cpp, which writes the lengths to
    memory that a fake tensor does not have.

    Args:
        packed: The rows of all sequences, step by step: (rows, ...).
        batch_sizes: How many sequences have a row of each step. They get no more: the longest
            sequence comes first.
        batch_first: Whether the result is (sequences, steps, ...).
        value: What the rest is filled with.
        length: The least number of steps.
    """
    sizes: list[int] = batch_sizes.tolist()
    sequences = sizes[0]
    steps = max(length, len(sizes))
    padded = packed.new_full((steps, sequences, *packed.shape[1:]), value)
    # steps with equally many sequences are copied together
    step = row = 0
    for size, equal_sizes in groupby(sizes):
        next_step = step + len(list(equal_sizes))
        next_row = row + size * (next_step - step)
        target = padded[step:next_step, :size]
        target.copy_(packed[row:next_row].view(target.shape))
        step, row = next_step, next_row
    lengths = []
    for sequence in range(sequences):
        lengths.append(sum(sequence < size for size in sizes))
    return padded.transpose(0, 1) if batch_first else padded, torch.tensor(lengths)


def compute_ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the loss of `functional.ctc_loss`, with lengths as numbers of Python.

    CUDA reads them so, too: a port of `ctc_loss` in ATen/native/LossCTC.cpp.
    """
    inputs, labels = read_lengths(input_lengths), read_lengths(target_lengths)
    losses = torch._ctc_loss(log_probs, targets, inputs, labels, blank, zero_infinity)[0]
    if zero_infinity:
        losses = torch.where(losses == math.inf, torch.zeros_like(losses), losses)
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":
        return (losses / torch.ones_like(losses)).mean()  # by the lengths of the targets
    return losses


def read_lengths(lengths: Any) -> Any:
    """Return the numbers of a tensor in a list if they are known, and else what was given."""
    is_known = isinstance(lengths, Tensor) and find_numbers(lengths) is not None
    return lengths.tolist() if is_known else lengths


def copy_gradient(overwritten: Tensor) -> None:
    """Let the derivative of a view that was overwritten copy its gradients."""

    def copy(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        return tuple(None if gradient is None else gradient.clone() for gradient in gradients)

    derivative = overwritten.grad_fn
    if derivative is not None and derivative.name() in COPY_NOTHING:
        derivative.register_prehook(copy)
