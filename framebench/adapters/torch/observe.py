"""Count operators, matmuls by type, and saved tensors of one eager step of PyTorch."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from framebench.adapters.base import Evidence
from framebench.adapters.replacing import replace_attributes
from framebench.adapters.torch.modes import OperatorMode, name_operator
from framebench.suite.trees import read_batch_length

# beginnings of the names of operators that autocast runs in the lower precision
MATMULS = ("convolution", "addmm", "mm", "bmm", "_scaled_dot_product")
# further ones, of which other proofs need no count
OTHER_PRODUCTS = (
    "_addmm_activation",
    "addbmm",
    "addmv",
    "baddbmm",
    "conv_tbc",
    "mkldnn_rnn_layer",
    "mv",
)
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
    visited = set()
    pending: list[Any] = [output.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        pending += [following for following, _ in node.next_functions]
        yield node


def count_graph_nodes(output: Tensor) -> int:
    """Return the number of nodes in the autograd graph that an output keeps alive."""
    return len(list(iterate_graph(output)))


@contextlib.contextmanager
def follow_saved(save: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Call `save` with each tensor that autograd saves in this context; its result is kept.

    The transforms of `torch.func` refuse to run under such hooks, so that ours are removed while a
    transform runs: what it saves is not followed. If the program's hooks are the innermost ones,
    PyTorch refuses them as it always does.
    """
    hooks = torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor)
    refuse_hooks = torch.autograd.graph.disable_saved_tensors_hooks

    @contextlib.contextmanager
    def disable_without_ours(error_message: str) -> Iterator[None]:
        ignore_is_tracing = True
        innermost = torch._C._autograd._top_saved_tensors_default_hooks(ignore_is_tracing)
        if innermost is None or innermost[0] is not hooks.pack_hook:
            with refuse_hooks(error_message):
                yield
            return
        hooks.__exit__()
        try:
            with refuse_hooks(error_message):
                yield
        finally:
            hooks.__enter__()

    functions = {"disable_saved_tensors_hooks": disable_without_ours}
    with hooks, replace_attributes(torch.autograd.graph, **functions):
        yield


def find_storages(
    tensors: Iterable[Tensor],
    key: Callable[[torch.UntypedStorage], int] = torch.UntypedStorage.data_ptr,
) -> dict[int, int]:
    """Return the bytes of each storage that these tensors have, by its address or another key.

    Only the local part of a tensor that is divided among ranks counts.
    """
    storages = {}
    for tensor in tensors:
        for part in list_plain_tensors(tensor):
            storage = part.untyped_storage()
            storages[key(storage)] = storage.nbytes()
    return storages


def read_identity(storage: torch.UntypedStorage) -> int:
    """Return what identifies a storage while it is alive; one without numbers has no address."""
    return storage._cdata


def count_unique_bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of the storages of these tensors, each storage once."""
    return sum(find_storages(tensors).values())


def list_plain_tensors(tensor: Any) -> list[Tensor]:
    """Return the plain dense tensors that a tensor consists of.

    A tensor in 8 bits consists of codes and scales, a sparse one of indices and values. If a
    tensor is divided among ranks, these are the tensors of the local part.
    """
    local = tensor.detach().to_local() if hasattr(tensor, "to_local") else tensor
    if local.layout == torch.sparse_coo:
        return [local._indices(), local._values()]
    if local.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [local.crow_indices(), local.col_indices(), local.values()]
    if local.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [local.ccol_indices(), local.row_indices(), local.values()]
    if not is_traceable_wrapper_subclass(local):
        return [local]
    names, _ = local.__tensor_flatten__()
    tensors: list[Tensor] = []
    for name in names:
        tensors += list_plain_tensors(getattr(local, name))
    return tensors


def name_dtype(dtype: torch.dtype) -> str:
    """Return a type's name without the name of its package, such as `float32`."""
    return str(dtype).removeprefix("torch.")


def count_dtypes(tensors: Iterable[Tensor]) -> Evidence:
    """Return how many tensors there are of each type."""
    return dict(Counter(name_dtype(tensor.dtype) for tensor in tensors))


class StepCounter(OperatorMode):
    """Context that counts what one eager step does.

    Args:
        models: The models of the step, the trained one first.
        blocks: The blocks of all models.
        lasting: Tensors that also exist between two steps, so that to save them costs nothing.
    """

    def __init__(
        self, models: list[nn.Module], blocks: list[nn.Module], lasting: Iterable[Tensor] = ()
    ) -> None:
        """Start all counts at zero."""
        super().__init__()
        self.models = models
        self.blocks = blocks
        self.lasting = list(lasting)  # kept alive, so that nothing else gets their addresses
        self.lasting_storages = find_storages(self.lasting)
        self.activations: dict[int, int] = {}  # bytes by address, of the current forward pass
        self.activation_bytes = 0  # the most that one forward pass saved
        self.counts = Counter(saved_tensors=0, samples_per_pass=0, block_runs=0, forward_passes=0)
        self.matmuls: Counter[str] = Counter()  # by type
        self.convolutions = {"channels_last": 0, "channels_first": 0}
        self.operators: Counter[str] = Counter()
        self.updates: list[int] = []  # backward passes in which running updates began

    def run_operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator and count it.

        The matmuls of an optimizer's update, as Adafactor has, are not the model's: strategies that
        change the model's precision leave theirs.
        """
        if torch.is_inference_mode_enabled():
            out = self.run_parts(func, args, kwargs)
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs)
        name = name_operator(func)
        self.operators[name] += 1
        if name.startswith(MATMULS) and not self.is_in_update():
            operand = next(a for a in args if isinstance(a, Tensor))
            self.matmuls[name_dtype(operand.dtype)] += 1
        if name == "convolution":
            self.convolutions[name_layout(args[0])] += 1
        return out

    def run_parts(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run and count the operators that a composed one, such as `linear`, consists of.

        Only inference mode passes composed operators on as a whole. Returns NotImplemented for any
        other operator.
        """
        # PyTorch leaves a mode while it runs an operator: entered again, the mode sees the parts.
        # It is not `self.__enter__`, which also sets up hooks.
        super().__enter__()
        try:
            return func.decompose(*args, **kwargs)
        finally:
            super().__exit__(None, None, None)

    def __enter__(self) -> StepCounter:
        """Hook into the models, the blocks and what autograd saves."""
        self.stack = contextlib.ExitStack()
        enter = self.stack.enter_context  # of a handle: it removes the hook when the stack closes
        for model in self.models:
            enter(model.register_forward_pre_hook(self.before_pass))
            enter(model.register_forward_hook(self.after_pass, with_kwargs=True))
        for block in self.blocks:
            # before the forward pass, since a recomputation may stop before it ends
            enter(block.register_forward_pre_hook(self.before_block))
        enter(register_optimizer_step_pre_hook(self.before_update))
        enter(register_optimizer_step_post_hook(self.after_update))
        enter(follow_saved(self.on_save))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        """Remove all hooks."""
        super().__exit__(*error)
        self.stack.close()

    def before_pass(self, module: nn.Module, args: Any) -> None:
        """Begin to count the activations of a forward pass."""
        self.activations.clear()

    def after_pass(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Count a forward pass, unless it is a teacher's."""
        if module is self.models[0]:
            self.counts["forward_passes"] += 1
        self.counts["samples_per_pass"] = read_batch_length((args, kwargs))

    def before_block(self, module: nn.Module, args: Any) -> None:
        """Count an execution of a block."""
        self.counts["block_runs"] += 1

    def before_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Note that an optimizer's update begins, and in which backward pass."""
        self.updates.append(torch._C._current_graph_task_id())

    def after_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Note that an optimizer's update has ended."""
        self.updates.pop()

    def is_in_update(self) -> bool:
        """Return whether an optimizer itself computes now, and not a closure that it calls.

        A closure's forward pass asks for gradients, and its backward pass is one that began after
        the update did.
        """
        if not self.updates or torch.is_grad_enabled():
            return False
        return torch._C._current_graph_task_id() == self.updates[-1]

    def on_save(self, tensor: Tensor) -> Tensor:
        """Count a tensor that is saved for the backward pass."""
        self.counts["saved_tensors"] += 1
        for address, size in find_storages([tensor]).items():
            if address not in self.lasting_storages:
                self.activations[address] = size
        self.activation_bytes = max(self.activation_bytes, sum(self.activations.values()))
        return tensor

    def evidence(self) -> Evidence:
        """Return the counts by the names that proofs call them by."""
        return {
            "blocks": len(self.blocks),
            **self.counts,
            "activation_bytes": self.activation_bytes,
            "products": dict(self.matmuls),
            "convolutions": dict(self.convolutions),
            "operators": dict(self.operators),
        }


def name_layout(inputs: Tensor) -> str:
    """Return `channels_last` or `channels_first` for a convolution's input.

    Sequences (three axes) only have channels first. A single channel has both layouts, and counts
    as channels first.
    """
    layout = CHANNELS_LAST.get(inputs.ndim)
    if layout is None or inputs.shape[1] == 1:
        return "channels_first"
    return "channels_last" if inputs.is_contiguous(memory_format=layout) else "channels_first"
