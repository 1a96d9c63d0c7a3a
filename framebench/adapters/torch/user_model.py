"""The user's file in PyTorch, as a workload's model file.

It has `model()`, `batch(n)`, `loss(output, target)`, and may have `optimizer(parameters)` and
`blocks`: a class or classes of what checkpointing recomputes, or a function of the model that lists
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.utils._python_dispatch import _disable_current_modes

from framebench.adapters import user_blocks
from framebench.adapters.torch.observe import needs_closure
from framebench.adapters.torch.user_faults import explain_wrong_gradients as explain_wrong_gradients
from framebench.adapters.torch.user_levels import find_best_level
from framebench.adapters.torch.user_optimizer import (
    CombinedOptimizer,
    asks_for_closure,
    describe_optimizer,
    has_hooks,
    list_inner,
    list_optimizers,
    list_parts,
    makes_passes,
    set_options,
)
from framebench.adapters.user_functions import UserFile, describe_type, unwrap_loss
from framebench.models.spec import USER_MODEL, load_workload
from framebench.suite.trees import call_with, iterate_arrays, map_tree
from framebench.suite.user_file import Fault


def _list_modules(module: nn.Module) -> list[Any]:
    return [m for m in module.modules() if not isinstance(m, ParametrizationList)]


def _count_weights(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


ACCESS = user_blocks.ModuleAccess(
    modules=_list_modules,
    size=_count_weights,
    containers=(nn.Sequential, nn.ModuleList, nn.ModuleDict),
)
STEP = "step(model, batch, optimizer)"
NORMS = nn.modules.batchnorm._BatchNorm


@cache
def user() -> UserFile:
    """Import the user's file. Raises Fault."""
    facts: dict[str, Any] = load_workload(USER_MODEL).facts  # type: ignore[attr-defined]
    return UserFile(facts["file"], torch.manual_seed)


class Body(nn.Module):
    """Compute what a block does. The block itself, called by the model, goes by `block_runner`."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block
        self.plain = block.forward

    def forward(self, *args: Any, **named: Any) -> Any:
        return self.plain(*args, **named)


def build(config: Any) -> nn.Module:
    """Return the file's model, whose blocks are run by way of `block_runner`. Raises Fault."""
    model: Any = make_plain_model()
    model.block_runner = call_block
    # a tuple, which a module does not take for modules of its own
    model.bodies = tuple(route_block(model, block) for block in find_blocks(model))
    return model


def call_block(block: nn.Module, *args: Any, **named: Any) -> Any:
    """Run a block as it is."""
    return block(*args, **named)


def route_block(model: Any, block: nn.Module) -> Body:
    """Have a block run by the model's `block_runner`, and return what it computes."""
    body = Body(block)
    block.forward = lambda *args, **named: model.block_runner(body, *args, **named)
    return body


def make_plain_model() -> nn.Module:
    """Return the file's model as it is. Raises Fault if it cannot be measured."""
    model = user().make_model(nn.Module)
    where = user().locate("model")
    if not isinstance(model, nn.Module):
        returned = describe_type(model)
        raise Fault(f"{where}: model() must return a torch.nn.Module, and it returned {returned}")
    for name, p in model.named_parameters():
        if nn.parameter.is_lazy(p):
            raise Fault(
                f"{where}: {name} has no shape yet: call the model once in model(), as on "
                f"`batch(1)[0]`"
            )
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, nn.Parameter) and tensor.dtype == torch.float64:
            raise Fault(
                f"{where}: {name} is float64, and the baseline computes in float32: "
                f"return model.float()"
            )
        if isinstance(tensor, Tensor) and tensor.layout != torch.strided:
            raise Fault(
                f"{where}: {name} is sparse, and cannot be compared: keep it as an attribute, "
                f"not as a buffer"
            )
    return model


def blocks_of(model: Any) -> list[nn.Module]:
    """Return what checkpointing recomputes: the bodies of the model's blocks."""
    return list(model.bodies)


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the model's blocks, as a survey has chosen them if there was one. Raises Fault."""
    facts: dict[str, Any] = load_workload(USER_MODEL).facts  # type: ignore[attr-defined]
    modules = dict(model.named_modules())
    chosen: list[str] = facts.get("blocks", [])
    if chosen and all(name in modules for name in chosen):
        return [modules[name] for name in chosen]
    return user_blocks.find_blocks(model, user(), ACCESS)


def choose_blocks(model: nn.Module, inputs: Any) -> list[nn.Module]:
    """Return the model's blocks: of several levels that repeat, the one that saves most.

    Raises Fault.
    """
    levels = user_blocks.list_levels(model, ACCESS)
    if hasattr(user().module, "blocks") or len(levels) < 2:
        return find_blocks(model)
    try:
        return find_best_level(model, inputs, levels)
    except Exception:  # of the model, which is reported where its baseline runs
        return find_blocks(model)


def loss(output: Any, target: Any) -> Tensor:
    """Return the file's loss. Raises Fault."""
    value: Tensor = user().compute_loss(Tensor, "a tensor", output, target)
    return value.reshape(())


def optimizer(parameters: Iterable[nn.Parameter], **options: Any) -> torch.optim.Optimizer:
    """Return the file's optimizer, with these options set in it.

    Several optimizers become one. What the file returned is its attribute `returned`. Raises Fault,
    and DoesNotApply if it has no such option.
    """
    returned = user().get("optimizer")(list(parameters))
    optimizers = list_optimizers(returned)
    if not optimizers:
        where = user().locate("optimizer")
        raise Fault(
            f"{where}: optimizer(parameters) must return a torch.optim.Optimizer, "
            f"and it returned {describe_type(returned)}"
        )
    for one in optimizers:
        _set_full_rate(one)
    for one in optimizers:
        set_options(one, options)
    made: Any = optimizers[0] if len(optimizers) == 1 else combine_optimizers(optimizers)
    made.returned = returned
    return cast(torch.optim.Optimizer, made)


def combine_optimizers(optimizers: list[torch.optim.Optimizer]) -> CombinedOptimizer:
    """Return one optimizer that steps all of these.

    Raises Fault if two have the same weight, or if one computes the loss itself.
    """
    addresses = []
    for one in optimizers:
        for group in one.param_groups:
            addresses += [id(p) for p in group["params"]]
    if len(set(addresses)) < len(addresses) or any(makes_passes(one) for one in optimizers):
        where = user().locate("optimizer")
        raise Fault(
            f"{where}: several optimizers must share no weight, and none of them may compute the "
            f"loss itself; step(model, batch, optimizer) of the file steps them as it likes"
        )
    return CombinedOptimizer(optimizers)


def _set_full_rate(optimizer: torch.optim.Optimizer) -> None:
    """Undo a schedule's first change of the rate.

    A schedule may begin at a rate of 0, which moves nothing: then no update could be verified.
    """
    for one in (optimizer, *list_inner(optimizer)):
        for group in one.param_groups:
            if "initial_lr" in group:
                group["lr"] = find_full_rate(group)


def find_full_rate(group: dict[str, Any]) -> Any:
    """Return the rate that a schedule multiplies, or that of `OneCycleLR` at its height."""
    return group.get("max_lr", group["initial_lr"])


def weights() -> dict[str, np.ndarray]:
    """Return the weights and buffers that the model begins with."""
    return {name: to_wide_array(tensor) for name, tensor in list_state(make_plain_model())}


def list_state(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Return weights and buffers, without descriptions that packages keep with them."""
    state = model.state_dict().items()
    return [(name, tensor) for name, tensor in state if isinstance(tensor, Tensor)]


def to_wide_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor in NumPy: integers as they are, real numbers in at least float32.

    NumPy has no bfloat16.
    """
    if tensor.is_floating_point() and tensor.dtype != torch.float64:
        tensor = tensor.float()
    return tensor.detach().cpu().numpy()


def batch(size: int) -> tuple[Any, Any]:
    """Return inputs and targets. Raises Fault.

    They have numbers even in a mode of fake tensors.
    """
    with _disable_current_modes():
        inputs, targets = user().make_batch(size, Tensor, "tensor")
        return map_tree(to_canonical, inputs), map_tree(to_canonical, targets)


def to_canonical(tensor: Tensor) -> np.ndarray | Tensor:
    """Return a tensor in NumPy, as every batch is kept; one that NumPy does not have as it is."""
    if tensor.layout != torch.strided or tensor.is_nested:
        return tensor.detach()
    return to_wide_array(tensor)


def split_batch(batch: tuple[Any, Any], parts: int, size: int) -> list[tuple[Any, Any]]:
    """Return the micro-batches of a batch of `size` samples. Raises Fault."""
    return user().split_batch(batch, parts, size)


def facts(size: int) -> dict[str, Any]:
    """Return what the harness must know of the model without PyTorch. Raises Fault."""
    model = make_plain_model()
    inputs, targets = user().make_batch(size, Tensor, "tensor")
    all_parameters = dict(model.named_parameters(remove_duplicate=False))
    trained = {name for name, p in all_parameters.items() if p.requires_grad}
    if not trained:
        raise Fault(f"{user().locate('model')}: no weight of the model asks for a gradient")
    numbers = []
    for name, tensor in list_state(model):
        if tensor.is_floating_point() or tensor.is_complex():
            numbers.append((name, list(tensor.shape), name in trained))
    modules = dict(model.named_modules())
    names = {id(module): name for name, module in modules.items()}
    blocks = choose_blocks(model, inputs)
    described = user_blocks.describe_model(blocks, names, inputs, targets)
    levels = [type(level[0]).__name__ for level in user_blocks.list_levels(model, ACCESS)]
    has_convolution = any(isinstance(m, nn.Conv2d) for m in modules.values())
    convolutions = [m for m in modules.values() if isinstance(m, nn.modules.conv._ConvNd)]
    norms = [name for name, m in modules.items() if isinstance(m, NORMS)]
    complex_weights = [name for name, p in model.named_parameters() if p.is_complex()]
    sparse = [name for name, m in modules.items() if getattr(m, "sparse", False) is True]
    return {
        **described,
        "levels": [] if hasattr(user().module, "blocks") else levels,
        "uncut": user().explain_uncut(inputs, size),
        "params": numbers,
        "tied": sorted(all_parameters.keys() - dict(model.named_parameters()).keys()),
        "parameters": _count_weights(model),
        "couples": norms[:1],
        "convolutions": bool(convolutions),
        "images": len(described["input"]) == 4 and has_convolution,
        **_describe_optimizer(model),
        "own_step": has_step(),
        "complex": complex_weights[:1],
        "compiled": any(is_compiled(module) for module in modules.values()),
        "sparse": sparse[:1],
    }


def is_compiled(module: nn.Module) -> bool:
    """Return whether the file has compiled a module."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None


def _describe_optimizer(model: nn.Module) -> dict[str, Any]:
    if "optimizer" not in user():
        return {"optimizer": "SGD"}
    made = optimizer(model.parameters())
    description = describe_optimizer(made)
    rates = {find_full_rate(group) for group in made.param_groups if "initial_lr" in group}
    if rates:
        listed = ", ".join(str(rate) for rate in sorted(rates))
        description += f" at its full rate of {listed}, without its schedule"
    # what wrappers hold; of several optimizers, none is inside another
    inner = [one for part in list_parts(made) for one in list_inner(part)]
    return {
        "optimizer": description,
        "closure": needs_closure(made),
        "passes": asks_for_closure(made),
        "hooks": has_hooks(made),
        "inner": [type(one).__name__ for one in inner],
    }


def has_step() -> bool:
    """Return whether the file has a training step of its own."""
    return user().has_step()


def run_step(model: nn.Module, batch: tuple[Any, Any], optimizer: Any) -> Tensor:
    """Make the file's own training step, and return its loss. Raises Fault.

    It gets the optimizer as the file's `optimizer` returned it, with schedules.
    """
    returned = getattr(optimizer, "returned", optimizer)
    value = unwrap_loss(user().get("step")(model, user().as_written(batch), returned))
    if isinstance(value, int | float):
        value = torch.tensor(float(value))
    loss_of_step: Tensor = user().read_number("step", STEP, Tensor, "a tensor", value)
    return loss_of_step.detach().reshape(())


def gradient_of(adapter: Any) -> tuple[float, list[tuple[str, np.ndarray]]]:
    """Return the loss of the adapter's inputs, and the gradients of a backward pass."""
    adapter.seed()
    value = adapter.backward_pass().item()
    gradients = []
    for name, p in adapter.model.named_parameters():
        if p.grad is not None:
            dense = p.grad.to_dense() if p.grad.is_sparse else p.grad
            gradients.append((name, to_wide_array(dense)))
    return value, gradients


def changed_by_blocks(adapter: Any) -> bool:
    """Return whether the forward pass of a block changes a buffer in it.

    Statistics of batch norm do not count: they change once, recomputed or not.
    """
    before: dict[nn.Module, list[Tensor]] = {}
    is_changed = False

    def copy_buffers(block: nn.Module) -> list[Tensor]:
        copies = []
        for module in block.modules():
            if not isinstance(module, NORMS):
                copies += [buffer.clone() for buffer in module.buffers(recurse=False)]
        return copies

    def before_block(block: nn.Module, *_: Any) -> None:
        before[block] = copy_buffers(block)

    def after_block(block: nn.Module, *_: Any) -> None:
        nonlocal is_changed
        for old, new in zip(before[block], copy_buffers(block)):
            if not torch.equal(old, new):
                is_changed = True

    handles: list[Any] = []
    for block in adapter.blocks():
        handles.append(block.register_forward_pre_hook(before_block))
        handles.append(block.register_forward_hook(after_block))
    gradient_of(adapter)
    for handle in handles:
        handle.remove()
    return is_changed


def record_outputs(model: nn.Module, run: Callable[[], object]) -> list[tuple[str, Tensor]]:
    """Return the first tensor that each innermost module returned in `run`, in order."""
    outputs: list[tuple[str, Tensor]] = []

    def record(name: str, module: Any, args: Any, output: Any) -> None:
        for tensor in list(iterate_arrays(output))[:1]:
            outputs.append((name, tensor.detach().clone()))

    handles = []
    for name, module in model.named_modules():
        if not list(module.children()):
            described = f"{name} ({type(module).__name__})"
            handles.append(module.register_forward_hook(partial(record, described)))
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return outputs


def _record_forward(adapter: Any) -> list[tuple[str, Tensor]]:
    """Return the outputs of the modules in one more forward pass."""
    model = adapter.model
    inputs, _ = adapter.inputs
    with torch.no_grad():
        return record_outputs(model, lambda: call_with(model, inputs))


def first_random(adapter: Any) -> str:
    """Return where a second forward pass differs first; empty if nowhere."""
    once = _record_forward(adapter)
    twice = _record_forward(adapter)
    for (name, a), (_, b) in zip(once, twice):
        if not torch.equal(a, b):
            return f"first in the output of {name}"
    return ""


def first_infinite(adapter: Any) -> str:
    """Return the first module that gives infinity or no number; empty if there is none."""
    for name, output in _record_forward(adapter):
        if not output.isfinite().all():
            return f"first in the output of {name}"
    return ""
