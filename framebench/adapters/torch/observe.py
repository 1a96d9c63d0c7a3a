"""Count what one eager step of PyTorch does while it runs.

Counted are operators, matmuls by type, and tensors that are saved for the backward pass.
"""

from __future__ import annotations

import contextlib
import inspect
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from framebench.adapters.base import Evidence
from framebench.suite.trees import count_samples, iterate_arrays

# what autocast runs in the lower precision, by the beginnings of operators' names
MATMULS = ("convolution", "addmm", "mm", "bmm", "_scaled_dot_product")
# fused kernels of attention, of which PyTorch chooses one
FUSED_KERNELS = (
    "flash_attention_for_cpu",
    "flash_attention",
    "efficient_attention",
    "cudnn_attention",
)
# products of matrices in batches, as attention's are
BATCHED_MATMULS = ("bmm", *(f"_scaled_dot_product_{kernel}" for kernel in FUSED_KERNELS))
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}  # by the number of axes


def iterate_graph(output: Tensor) -> Iterator[Any]:
    """Yield the nodes of the autograd graph that an output keeps alive."""
    seen = set()
    pending: list[Any] = [output.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        pending += [following for following, _ in node.next_functions]
        yield node


def count_graph_nodes(output: Tensor) -> int:
    """Return the number of nodes in the autograd graph that an output keeps alive."""
    return len(list(iterate_graph(output)))


def needs_closure(optimizer: Any) -> bool:
    """Return whether the optimizer's step computes the loss itself, as that of L-BFGS does."""
    parameter = inspect.signature(optimizer.step).parameters.get("closure")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def unique_bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of the storages of these tensors, each storage once.

    Of a tensor that is divided among ranks only the local part counts.
    """
    bytes_by_address = {}
    for tensor in tensors:
        for part in plain_tensors(tensor):
            storage = part.untyped_storage()
            bytes_by_address[storage.data_ptr()] = storage.nbytes()
    return sum(bytes_by_address.values())


def plain_tensors(tensor: Any) -> list[Tensor]:
    """Return the plain dense tensors that a tensor consists of.

    These are codes and scales of one in 8 bits, values and indices of a sparse one, and the local
    part of one that is divided among ranks.
    """
    local = tensor.detach().to_local() if hasattr(tensor, "to_local") else tensor
    if local.layout != torch.strided:
        return _split_sparse(local)
    if not is_traceable_wrapper_subclass(local):
        return [local]
    names, _ = local.__tensor_flatten__()
    tensors: list[Tensor] = []
    for name in names:
        tensors += plain_tensors(getattr(local, name))
    return tensors


def _split_sparse(tensor: Tensor) -> list[Tensor]:
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


def name_dtype(dtype: torch.dtype) -> str:
    """Return a type's name without the name of its package, such as `float32`."""
    return str(dtype).removeprefix("torch.")


def count_dtypes(tensors: Iterable[Tensor]) -> Evidence:
    """Return how many tensors there are of each type."""
    return dict(Counter(name_dtype(tensor.dtype) for tensor in tensors))


class Observed(TorchDispatchMode):
    """A context that counts what one step does.

    Args:
        models: the trained model first; executions of their blocks and forward passes count.
        blocks: the blocks of all models.
        lasting: tensors that are there between two steps too. To save them costs nothing.
    """

    def __init__(
        self, models: list[nn.Module], blocks: list[nn.Module], lasting: Iterable[Tensor] = ()
    ) -> None:
        super().__init__()
        self.models = models
        self.blocks = blocks
        # kept alive, so that nothing else gets their addresses
        self.lasting: list[Tensor] = []
        for tensor in lasting:
            self.lasting += plain_tensors(tensor)
        self.lasting_addresses = {t.untyped_storage().data_ptr() for t in self.lasting}
        self.saved: dict[int, int] = {}  # bytes by address, of the whole step
        self.activations: dict[int, int] = {}  # those that the present forward pass has saved
        self.activation_bytes = 0  # the most that one forward pass saved
        self.saved_count = 0
        self.samples_per_pass = 0
        self.block_runs = 0
        self.passes = 0
        self.block_output_dtypes: Counter[str] = Counter()
        self.matmuls: Counter[str] = Counter()  # by type
        self.convolutions = {"channels_last": 0, "channels_first": 0}
        self.operators: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and count it."""
        kwargs = kwargs or {}
        if torch.is_inference_mode_enabled():
            out = self.decompose(func, args, kwargs)
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        self.operators[name] += 1
        if name.startswith(MATMULS):
            operand = next(a for a in args if isinstance(a, Tensor))
            self.matmuls[name_dtype(operand.dtype)] += 1
        if name == "convolution":
            self.count_convolution(args[0])
        return out

    def decompose(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the operators that a composed one, such as `linear`, consists of.

        Only inference mode passes composed operators on as a whole. Returns NotImplemented for any
        other operator.
        """
        super().__enter__()
        try:
            return func.decompose(*args, **kwargs)
        finally:
            super().__exit__(None, None, None)

    def count_convolution(self, inputs: Tensor) -> None:
        """Count a convolution by the memory format of its inputs.

        Sequences have three axes, and no format but channels first. A single channel has both.
        """
        layout = CHANNELS_LAST.get(inputs.ndim)
        is_last = layout is not None and inputs.is_contiguous(memory_format=layout)
        order = "channels_last" if is_last and inputs.shape[1] > 1 else "channels_first"
        self.convolutions[order] += 1

    def __enter__(self) -> Observed:
        self.stack = contextlib.ExitStack()
        for model in self.models:
            self.add_hook(model.register_forward_pre_hook(self.before_pass))
            self.add_hook(model.register_forward_hook(self.after_pass, with_kwargs=True))
        for block in self.blocks:
            # Before the forward: a recomputation stops early, as soon as it has what the backward
            # pass needs.
            self.add_hook(block.register_forward_pre_hook(self.before_block))
            self.add_hook(block.register_forward_hook(self.after_block))
        hooks = torch.autograd.graph.saved_tensors_hooks(self.on_save, self.on_load)
        self.stack.enter_context(hooks)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.stack.close()

    def add_hook(self, handle: Any) -> None:
        """Remove a hook when this context is left."""
        self.stack.callback(handle.remove)

    def before_pass(self, module: nn.Module, args: Any) -> None:
        """Begin to count the activations of a forward pass."""
        self.activations.clear()

    def after_pass(self, module: nn.Module, args: Any, named: Any, output: Any) -> None:
        """Count a forward pass, unless it is a teacher's."""
        if module is self.models[0]:
            self.passes += 1
        self.samples_per_pass = count_samples((args, named))

    def before_block(self, module: nn.Module, args: Any) -> None:
        """Count an execution of a block."""
        self.block_runs += 1

    def after_block(self, module: nn.Module, args: Any, output: Any) -> None:
        """Count the type of a block's first output; a user's block may have none."""
        for first in list(iterate_arrays(output))[:1]:
            self.block_output_dtypes[name_dtype(first.dtype)] += 1

    def on_save(self, tensor: Tensor) -> Tensor:
        """Count a tensor that is saved for the backward pass."""
        self.saved_count += 1
        for part in plain_tensors(tensor):
            storage = part.untyped_storage()
            address = storage.data_ptr()
            self.saved[address] = storage.nbytes()
            if address not in self.lasting_addresses:
                self.activations[address] = storage.nbytes()
        self.activation_bytes = max(self.activation_bytes, sum(self.activations.values()))
        return tensor

    def on_load(self, tensor: Tensor) -> Tensor:
        """Return a saved tensor as it is."""
        return tensor

    def evidence(self) -> Evidence:
        """Return the counts by the names that proofs call them by."""
        return {
            "blocks": len(self.blocks),
            "block_runs": self.block_runs,
            "forward_passes": self.passes,
            "samples_per_pass": self.samples_per_pass,
            "saved_tensors": self.saved_count,
            "saved_bytes": sum(self.saved.values()),
            "activation_bytes": self.activation_bytes,
            "block_output_dtypes": dict(self.block_output_dtypes),
            "products": dict(self.matmuls),
            "convolutions": dict(self.convolutions),
            "operators": dict(self.operators),
        }


class LargeResults(TorchDispatchMode):
    """A context that counts results as large as the logits, and softmaxes of a cross entropy.

    Args:
        rows: the least number of rows of a large result, which are tokens.
        columns: the number of columns, which is the size of the vocabulary.
        width: of the model. A result of as many rows is the transposed embedding, and not large.
    """

    def __init__(self, rows: int, columns: int, width: int) -> None:
        super().__init__()
        self.rows = rows
        self.columns = columns
        self.embedding = (width, columns)
        self.large = 0
        self.softmaxes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and look at its results."""
        out = func(*args, **(kwargs or {}))
        if func._schema.name == "aten::_log_softmax":
            self.softmaxes += 1
        if any(isinstance(t, Tensor) and self.is_large(t) for t in tree_leaves(out)):
            self.large += 1
        return out

    def is_large(self, tensor: Tensor) -> bool:
        """Return whether a tensor has the logits of at least so many tokens."""
        if not tensor.ndim or tensor.shape[-1] != self.columns or tensor.shape == self.embedding:
            return False
        return tensor.numel() >= self.rows * self.columns
