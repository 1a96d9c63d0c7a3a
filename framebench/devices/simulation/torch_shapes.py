"""Find the shapes of results that PyTorch's fake tensors do not tell.

Some operators have no fake implementation, and are run on the host with zeros to see what comes
out. The sizes of others are decided by numbers: how long the sequences of a batch are, or which
classes there are. If a program made these numbers itself, they are known (`fake_numbers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from framebench.adapters.torch.fake_numbers import HOST, find_numbers, keep_numbers
from framebench.devices.simulation.torch_device import is_on_gpu

aten = torch.ops.aten
# what is run with zeros may take so much of the host's memory
MOST_BYTES = 2**30
# the places of the lengths that decide how large the results are, whatever the other numbers are
LENGTHS: dict[Any, tuple[int, ...]] = {
    aten._pack_padded_sequence.default: (1,),
    aten._ctc_loss.default: (),  # they are numbers of Python there
}


def run_gru_cell(
    _input_gates: Tensor, _hidden_gates: Tensor, hidden: Tensor, *_: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return tensors of the shapes that `_thnn_fused_gru_cell_cuda` of RNN.cu makes."""
    rows, width = hidden.shape
    return torch.empty_like(hidden), hidden.new_empty(rows, 5 * width)


def run_gru_cell_backward(
    gradient: Tensor, _workspace: Tensor, has_bias: bool
) -> tuple[Tensor | None, ...]:
    """Return tensors of the shapes that `_thnn_fused_gru_cell_backward_cuda` of RNN.cu makes."""
    rows, width = gradient.shape
    gates = gradient.new_empty(rows, 3 * width), gradient.new_empty(rows, 3 * width)
    biases = [part.sum(0) if has_bias else None for part in gates]
    return *gates, torch.empty_like(gradient), *biases


# operators of CUDA alone, which no host can run
ON_CUDA_ALONE = {
    "_thnn_fused_gru_cell": run_gru_cell,
    "_thnn_fused_gru_cell_backward": run_gru_cell_backward,
}


def run_on_host(func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator on fake tensors of the host, and return results on the simulated GPU.

    PyTorch runs it with zeros then. Raises NotImplementedError if they would be too large, or if
    the host cannot run the operator either.
    """
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if sum(tensor.nbytes for tensor in tensors) > MOST_BYTES:
        raise NotImplementedError(f"{func} has no fake implementation")

    device = HOST
    for tensor in tensors:
        if is_on_gpu(tensor):
            device = tensor.device
            break

    def move_to_host(tensor: Tensor) -> Tensor:
        return torch.empty_like(tensor, device=HOST) if is_on_gpu(tensor) else tensor

    def move_back(result: Tensor) -> Tensor:
        return torch.empty_like(result, device=device)

    host_args, host_kwargs = tree_map_only(Tensor, move_to_host, (args, kwargs))
    results = func(*host_args, **host_kwargs)
    return tree_map_only(Tensor, move_back, results)


def run_with_numbers(func: Any, args: Any, kwargs: Any) -> Any:
    """Return an operator's results if the numbers that decide their sizes are known, else None.

    The operator runs on the host, with zeros in the place of all other numbers. Results on the host
    are no fake tensors, since PyTorch reads lengths from memory.
    """
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    decisive = tensors
    if func in LENGTHS:
        decisive = [args[place] for place in LENGTHS[func]]

    def read_or_zero(tensor: Tensor) -> Tensor:
        numbers = find_numbers(tensor)
        if numbers is None:
            return torch.zeros(tensor.shape, dtype=tensor.dtype)
        return numbers

    with _disable_current_modes():
        if any(find_numbers(tensor) is None for tensor in decisive):
            return None
        host_args, host_kwargs = tree_map_only(Tensor, read_or_zero, (args, kwargs))
        results = func(*host_args, **host_kwargs)

    def place(result: Tensor) -> Tensor:
        return place_result(result, tensors, has_numbers=func not in LENGTHS)

    return tree_map_only(Tensor, place, results)


def place_result(result: Tensor, operands: Sequence[Tensor], has_numbers: bool) -> Tensor:
    """Return a result that was computed on the host, on the device of its operands.

    That is the device of the first operand of its type, or else of the first operand: lengths may
    lie on the host, next to data on the GPU. On the GPU the result is a fake tensor, whose numbers
    are known if it `has_numbers`: none were computed from zeros.
    """
    of_type = [operand for operand in operands if operand.dtype == result.dtype]
    first = of_type[0] if of_type else operands[0]
    if first.device == HOST:
        return result
    fake = torch.empty_like(result, device=first.device)
    if has_numbers and isinstance(fake, FakeTensor):
        with _disable_current_modes():
            keep_numbers(fake, result)
    return fake
