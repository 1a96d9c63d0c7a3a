"""What one step of PyTorch does, counted while it runs: operators, products by type, tensors saved for the backward pass."""

from __future__ import annotations

import contextlib
import inspect
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from framebench.adapters.base import Evidence
from framebench.suite.trees import leaves, samples

PRODUCTS = ("convolution", "addmm", "mm", "bmm", "_scaled_dot_product")  # what autocast runs in the lower precision
FUSED = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")  # PyTorch chooses one
BATCHED = ("bmm", *(f"_scaled_dot_product_{kernel}" for kernel in FUSED))  # products of matrices in batches, as attention's are
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def graph_nodes(output: Tensor) -> int:
    """Nodes of the autograd graph that this output keeps alive."""
    seen, ahead = set(), [output.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in seen:
            seen.add(node)
            ahead += [following for following, _ in node.next_functions]
    return len(seen)


def asks_for_closure(optimizer: Any) -> bool:
    """Whether its step computes the loss itself, as that of L-BFGS does, as often as it likes."""
    parameter = inspect.signature(optimizer.step).parameters.get("closure")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def unique_bytes(tensors: Iterable[Tensor]) -> int:
    """Views of one storage counted once; of what is divided among ranks, the part that is here."""
    storages = (part.untyped_storage() for t in tensors for part in parts(t))
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values())


def parts(tensor: Any) -> list[Tensor]:
    """What a tensor consists of: codes and scales of one in 8 bits, of what is divided among ranks the part that is here."""
    here = _local(tensor)
    if here.layout != torch.strided:
        return _of_sparse(here)
    if not is_traceable_wrapper_subclass(here):
        return [here]
    return [part for name in here.__tensor_flatten__()[0] for part in parts(getattr(here, name))]


def _of_sparse(tensor: Tensor) -> list[Tensor]:
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    compressed = (
        ("crow_indices", "col_indices")
        if tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
        else ("ccol_indices", "row_indices")
    )
    return [getattr(tensor, name)() for name in (*compressed, "values")]


def _local(tensor: Any) -> Tensor:
    return tensor.detach().to_local() if hasattr(tensor, "to_local") else tensor


def dtypes(tensors: Iterable[Tensor]) -> Evidence:
    """How many there are of each type."""
    return dict(Counter(str(t.dtype).removeprefix("torch.") for t in tensors))


class Observed(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts what one step does: tensors saved for backward, block executions, forward passes, dtypes of products."""

    def __init__(self, models: list[nn.Module], blocks: list[nn.Module], lasting: Iterable[Tensor] = ()) -> None:
        """`lasting`: what is there between two steps, too, and so costs nothing when it is saved."""
        super().__init__()
        self.models, self.blocks = models, blocks
        self.kept = [part for tensor in lasting for part in parts(tensor)]  # alive, so that nothing else gets their addresses
        self.lasting = {part.untyped_storage().data_ptr() for part in self.kept}
        self.saved: dict[int, int] = {}
        self.activations: dict[int, int] = {}  # that one forward pass saved by now
        self.activation_bytes = 0  # the most that one forward pass saved
        self.saved_count = 0
        self.samples_per_pass = 0
        self.count: Counter[str] = Counter()
        self.dtypes: Counter[str] = Counter()
        self.operators: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.is_inference_mode_enabled() and (out := self.decomposed(func, args, kwargs or {})) is not NotImplemented:
            return out
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        self.operators[name] += 1
        if name.startswith(PRODUCTS):
            dtype = next(a.dtype for a in args if isinstance(a, Tensor))
            self.count[f"{str(dtype).removeprefix('torch.')}_products"] += 1
        if name == "convolution":
            layout = CHANNELS_LAST.get(args[0].ndim)  # none of sequences, which have three axes
            last = layout is not None and args[0].is_contiguous(memory_format=layout)
            self.count["channels_last" if last and args[0].shape[1] > 1 else "channels_first"] += 1
        return out

    def decomposed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """In inference mode a composed operator, such as `linear`, comes here as a whole: its parts are what counts."""
        super().__enter__()
        try:
            return func.decompose(*args, **kwargs)
        finally:
            super().__exit__(None, None, None)

    def __enter__(self) -> Observed:
        handles = [model.register_forward_pre_hook(lambda *_: self.activations.clear()) for model in self.models]
        handles += [model.register_forward_hook(self.on_pass, with_kwargs=True) for model in self.models]
        # before the forward: a recomputation stops early, as soon as it has what the backward pass needs
        handles += [b.register_forward_pre_hook(lambda *_: self.count.update(["blocks"])) for b in self.blocks]
        handles += [b.register_forward_hook(self.on_block) for b in self.blocks]
        self.stack = contextlib.ExitStack()
        for handle in handles:
            self.stack.callback(handle.remove)
        self.stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self.on_save, lambda t: t))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.stack.close()

    def on_pass(self, module: Any, args: Any, named: Any, output: Any) -> None:
        self.count["passes"] += module is self.models[0]  # a teacher's are its own affair
        self.samples_per_pass = samples((args, named))

    def on_block(self, module: Any, args: Any, output: Any) -> None:
        for first in [*leaves(output)][:1]:  # a user's block may give several, or none
            self.dtypes[str(first.dtype).removeprefix("torch.")] += 1

    def on_save(self, tensor: Tensor) -> Tensor:
        self.saved_count += 1
        for part in parts(tensor):
            storage = part.untyped_storage()
            self.saved[storage.data_ptr()] = storage.nbytes()
            if storage.data_ptr() not in self.lasting:
                self.activations[storage.data_ptr()] = storage.nbytes()
        self.activation_bytes = max(self.activation_bytes, sum(self.activations.values()))
        return tensor

    def evidence(self) -> Evidence:
        return {
            "blocks": len(self.blocks),
            "block_runs": self.count["blocks"],
            "forward_passes": self.count["passes"],
            "samples_per_pass": self.samples_per_pass,
            "saved_tensors": self.saved_count,
            "saved_bytes": sum(self.saved.values()),
            "activation_bytes": self.activation_bytes,
            "block_output_dtypes": dict(self.dtypes),
            "products": {name.removesuffix("_products"): n for name, n in self.count.items() if name.endswith("_products")},
            "convolutions": {order: self.count[order] for order in ("channels_last", "channels_first")},
            "operators": dict(self.operators),
        }


class Arrays(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts results with so many columns and at least so many rows, and the softmaxes of a cross entropy. A matrix of `width`
    rows is the transposed embedding."""

    def __init__(self, rows: int, columns: int, width: int) -> None:
        super().__init__()
        self.rows, self.columns, self.embedding = rows, columns, (width, columns)
        self.large = self.softmaxes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.softmaxes += func._schema.name == "aten::_log_softmax"
        tensors = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, Tensor)]
        self.large += any(map(self.as_large, tensors))
        return out

    def as_large(self, tensor: Tensor) -> bool:
        if not tensor.ndim or tensor.shape[-1] != self.columns or tensor.shape == self.embedding:
            return False
        return tensor.numel() >= self.rows * self.columns
