"""The user's file in PyTorch, as a workload's model file.

The file has `model()`, `batch(n)` and `loss(output, target)`. It may have `optimizer(parameters)`,
and `blocks`: the class or classes of the modules that checkpointing recomputes, or a function that
lists these modules of a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import cache, partial
from typing import Any, cast
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.utils._python_dispatch import _disable_current_modes

from framebench.adapters import user_blocks
from framebench.adapters.replacing import replace_attributes
from framebench.adapters.torch.fake_bitsandbytes import plain_4bit_weights, read_4bit_type
from framebench.adapters.torch.known_faults import (
    explain_wrong_gradients as explain_wrong_gradients,
)
from framebench.adapters.torch.known_faults import list_names
from framebench.adapters.torch.observe import (
    find_storages,
    follow_saved,
    name_dtype,
    read_identity,
)
from framebench.adapters.torch.on_host import keep_on_host
from framebench.adapters.torch.user_optimizer import (
    CombinedOptimizer,
    asks_for_closure,
    describe_optimizer,
    find_period,
    has_hooks,
    list_inner,
    list_optimizers,
    list_parts,
    makes_passes,
    needs_closure,
    set_options,
)
from framebench.adapters.user_functions import (
    FLOAT32_BYTES,
    LONGEST_PERIOD,
    STEP,
    UserFile,
    announce,
    describe_type,
    takes_arguments,
    unwrap_loss,
)
from framebench.models.spec import USER_MODEL, load_workload
from framebench.models.user_facts import ModelFacts
from framebench.suite.trees import call_with, iterate_arrays, map_tree
from framebench.suite.user_file import FORWARD_PASS, import_packages


def _list_modules(module: nn.Module) -> list[Any]:
    """Return a module and the modules in it, without those that no forward pass runs."""
    return [m for m in module.modules() if runs_forward(m)]


def runs_forward(module: nn.Module) -> bool:
    """Return whether a module can be called, and not only holds others, as an `nn.ModuleList`."""
    if isinstance(module, ParametrizationList):
        return False  # it is called for a weight, and not in the place where the weight is used
    own_forward = getattr(module.forward, "__func__", None)
    own_call = type(module).__call__
    return own_forward is not nn.Module.forward or own_call is not nn.Module.__call__


def _count_weights(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


ACCESS = user_blocks.ModuleAccess(
    modules=_list_modules,
    size=_count_weights,
    containers=(nn.Sequential,),
)
Storages = dict[int, int]  # bytes by storage
NORMS = nn.modules.batchnorm._BatchNorm
MODELS: WeakSet[nn.Module] = WeakSet()  # made by the file


@cache
def user() -> UserFile:
    """Return the user's file, imported. Raises Fault."""
    file = load_workload(USER_MODEL).facts["file"]
    return UserFile(file, torch.manual_seed, "tensor", batch_types=Tensor, loss_types=Tensor)


class BlockBody(nn.Module):
    """Compute what a block computes.

    When the model calls the block, the block passes this module to the model's `block_runner`.
    """

    def __init__(self, block: nn.Module) -> None:
        """Keep the block and its own `forward`, which is to be replaced."""
        super().__init__()
        self.block = block
        self.own_forward = block.forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.own_forward(*args, **kwargs)


def build(config: Any) -> nn.Module:
    """Return the file's model, whose blocks are run by its `block_runner`. Raises Fault."""
    model = make_plain_model()
    user_blocks.route_blocks(model, find_blocks(model), BlockBody, "forward")
    return model


class TrainingModel(nn.Module):
    """A module whose `training_step` computes the loss of a batch, as Lightning calls it."""

    def __init__(self, module: Any) -> None:
        """Keep the module, and find out whether its `training_step` takes a batch's number."""
        super().__init__()
        self.module = module
        self.training = module.training
        takes_number = takes_arguments(module.training_step, ["batch", 0])
        self.arguments = [0] if takes_number else []  # the number of the batch

    def forward(self, *inputs: Any, **named: Any) -> Any:
        batch = user().as_written((named or inputs, None))
        return unwrap_loss(self.module.training_step(batch, *self.arguments))


def get_file_model(model: Any) -> nn.Module:
    """Return the model as the file made it, without the wrapper that computes its loss."""
    file_model: nn.Module = model.module if isinstance(model, TrainingModel) else model
    return file_model


def find_training_step(model: Any) -> Any:
    """Return the model's own `training_step` if it computes the loss, else None.

    Raises Fault if it steps optimizers by itself.
    """
    facts = load_workload(USER_MODEL).facts
    is_used = "loss" not in user() and facts.get("scenario", "train") == "train"
    if not is_used or user().has_step():
        return None
    if getattr(model, "automatic_optimization", True) is False:
        raise user().fault(
            "model",
            "training_step steps optimizers by itself, since automatic_optimization is off: "
            f"write {STEP} in its place",
        )
    return getattr(model, "training_step", None)


def make_plain_model() -> nn.Module:
    """Return the file's model without routed blocks. Raises Fault if it cannot be measured."""
    with keep_on_host():
        model = user().make_model(nn.Module)
    if not isinstance(model, nn.Module):
        returned = describe_type(model)
        raise user().fault(
            "model", f"model() must return a torch.nn.Module, and it returned {returned}"
        )
    for name, tensor in model.state_dict(keep_vars=True).items():
        reason = ""
        if nn.parameter.is_lazy(tensor):
            reason = "has no shape yet: call the model once in model(), as on `batch(1)[0]`"
        elif isinstance(tensor, nn.Parameter) and tensor.dtype == torch.float64:
            reason = "is float64, and the baseline computes in float32: return model.float()"
        elif isinstance(tensor, Tensor) and tensor.layout != torch.strided:
            reason = "is sparse, and cannot be compared: keep it as an attribute, not as a buffer"
        if reason:
            raise user().fault("model", f"{name} {reason}")
    MODELS.add(model)
    user().takes_batch = callable(find_training_step(model))
    return TrainingModel(model) if user().takes_batch else model


def check_measurable(model: nn.Module) -> None:
    """Raise Fault if the model has numbers in 16 bits or fewer.

    The baseline that is measured computes in float32. Only predictions keep such types.
    """
    check_not_in_4bit(model)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_floating_point() and tensor.itemsize < FLOAT32_BYTES:
            dtype = name_dtype(tensor.dtype)
            raise user().fault(
                "model",
                f"{name} is {dtype}, and what is measured computes in float32: return "
                "model.float(), or predict the model in its own types with framebench predict",
            )


def check_not_in_4bit(model: nn.Module) -> None:
    """Raise Fault if the model has weights of 4 bits, which get them on a GPU only."""
    for name, p in model.named_parameters():
        bits = read_4bit_type(p)
        if bits:
            file = user().file
            raise user().fault(
                "model",
                f"{name} is a weight of 4 bits ({bits}), which bitsandbytes packs when the model "
                "moves to a GPU: framebench predict "
                f"{file} --device rtx4090-24gb",
            )


def blocks_of(model: Any) -> list[nn.Module]:
    """Return the bodies of the model's blocks, which checkpointing recomputes."""
    return list(model.bodies)


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the model's blocks: those that the survey chose, if there was one. Raises Fault."""
    modules = dict(model.named_modules())
    chosen: list[str] = load_workload(USER_MODEL).facts.get("blocks", [])
    if chosen and all(name in modules for name in chosen):
        return [modules[name] for name in chosen]
    return user_blocks.find_named_or_repeated(get_file_model(model), user(), ACCESS)


def list_levels(model: nn.Module) -> list[list[Any]]:
    """Return the levels at which modules repeat, or none if the file names its blocks.

    If the outermost modules of all levels are of several classes, they are a further, last level.
    """
    if "blocks" in user():
        return []
    levels = user_blocks.list_levels(get_file_model(model), ACCESS)
    outermost = user_blocks.join_levels(levels, ACCESS)
    return [*levels, outermost] if outermost else levels


def choose_blocks(model: nn.Module, inputs: Any, targets: Any) -> list[nn.Module]:
    """Return the model's blocks, which strategies such as checkpointing recompute.

    If modules repeat on several levels, these are the modules of the level where recomputation
    saves most. Raises Fault.
    """
    levels = list_levels(model)
    if len(levels) < 2:
        return find_blocks(model)
    announce(FORWARD_PASS)
    try:
        # makes a forward pass of the model for each level
        return min(levels, key=partial(measure_saved_at_peak, model, (inputs, targets)))
    except Exception:  # the model fails, which is reported when its baseline runs
        return find_blocks(model)


class PassEnded(BaseException):
    """A step has come to its backward pass. No `except Exception` of a user's file catches it."""


def end_pass(*_: Any, **__: Any) -> None:
    """Raise PassEnded: it takes the place of a backward pass."""
    raise PassEnded


def make_forward_pass(model: nn.Module, batch: Any) -> None:
    """Make the model's forward pass.

    If the file has its own step, the step runs up to its backward pass: a model of several networks
    may have no forward pass of its own.
    """
    if not user().has_step():
        call_with(model, batch[0])
        return
    parameters = list(model.parameters())
    if "optimizer" in user() or configures_optimizer(model):
        step_optimizer = make_optimizers(parameters)
    else:
        step_optimizer = torch.optim.SGD(parameters)
    with replace_attributes(torch.autograd, backward=end_pass), suppress(PassEnded):
        user().get("step")(model, user().as_written(batch), step_optimizer)


def measure_saved_at_peak(model: nn.Module, batch: Any, blocks: list[nn.Module]) -> int:
    """Return the bytes that are saved at the peak of a step if these blocks are recomputed.

    `batch` has inputs and targets. The bytes are those of the inputs of all blocks, what is saved
    outside blocks, and what the largest block saves while it is recomputed. They are counted in a
    forward pass without recomputation.
    """
    outside: Storages = {}
    inside: dict[nn.Module, Storages] = {block: {} for block in blocks}
    running = [outside]  # the last one gets what is saved now
    alive: list[Tensor] = []  # keeps storages, so that no address is used twice

    def enter(block: nn.Module, args: Any, kwargs: Any) -> None:
        tensors = list(iterate_arrays((args, kwargs)))
        alive.extend(tensors)
        outside.update(find_storages(tensors, read_identity))
        running.append(inside[block])

    def leave(*_: Any) -> None:
        running.pop()

    def save(tensor: Tensor) -> Tensor:
        alive.append(tensor)
        running[-1].update(find_storages([tensor], read_identity))
        return tensor

    with ExitStack() as stack:
        for block in blocks:
            stack.enter_context(block.register_forward_pre_hook(enter, with_kwargs=True))
            stack.enter_context(block.register_forward_hook(leave, always_call=True))
        stack.enter_context(follow_saved(save))
        make_forward_pass(model, batch)
    lasting_tensors = [*model.parameters(), *model.buffers(), *iterate_arrays(batch)]
    lasting = find_storages(lasting_tensors, read_identity)
    fullest = max(count_bytes(inside[block], lasting | outside) for block in blocks)
    return count_bytes(outside, lasting) + fullest


def count_bytes(storages: Storages, others: Storages) -> int:
    """Return the bytes of the storages that are not among others."""
    return sum(storages[storage] for storage in storages.keys() - others.keys())


def loss(output: Any, target: Any) -> Tensor:
    """Return the file's loss. Raises Fault."""
    value: Tensor = user().compute_loss(output, target)
    return value.reshape(())


def optimizer(parameters: Iterable[nn.Parameter], **options: Any) -> torch.optim.Optimizer:
    """Return the file's optimizer, with these options set in it.

    Several optimizers become one. Its attribute `returned` is what the file returned. Raises Fault,
    and DoesNotApply if the optimizer has no such option.
    """
    returned = make_optimizers(list(parameters))
    optimizers = list_optimizers(returned)
    if not optimizers:
        raise user().fault(
            "optimizer",
            f"optimizer(parameters) must return a torch.optim.Optimizer, and it returned "
            f"{describe_type(returned)}",
        )
    weight_ids = []
    for each in optimizers:
        for holder in (each, *list_inner(each)):
            for group in holder.param_groups:
                # a schedule may begin at a rate of 0, by which no update could be verified
                if "initial_lr" in group and not user().has_step():
                    group["lr"] = find_full_rate(group)
        set_options(each, options)
        for group in each.param_groups:
            weight_ids += [id(p) for p in group["params"]]
    combined: Any = optimizers[0]
    if len(optimizers) > 1:
        if len(set(weight_ids)) < len(weight_ids) or any(makes_passes(each) for each in optimizers):
            raise user().fault(
                "optimizer",
                "several optimizers must share no weight, and none of them may compute the loss "
                "itself; step(model, batch, optimizer) of the file steps them as it likes",
            )
        combined = CombinedOptimizer(optimizers)
    combined.returned = returned
    return cast(torch.optim.Optimizer, combined)


def make_optimizers(parameters: list[nn.Parameter]) -> Any:
    """Return the result of the file's `optimizer` for these parameters, or for their model.

    Without such a function the model's `configure_optimizers` is called.
    """
    announce("optimizer()")
    if "optimizer" not in user():
        return find_model(parameters).configure_optimizers()
    make = user().get("optimizer")
    if user().takes_model():
        return make(find_model(parameters))
    return make(parameters)


def find_model(parameters: list[nn.Parameter]) -> Any:
    """Return the model of the file that has these parameters. Raises LookupError."""
    for model in MODELS:
        if any(p is parameters[0] for p in model.parameters()):
            return model
    raise LookupError("these are the parameters of no model that the file has made")


def configures_optimizer(model: nn.Module) -> bool:
    """Return whether the model makes its optimizer, since the file has no `optimizer`."""
    configure = getattr(get_file_model(model), "configure_optimizers", None)
    return "optimizer" not in user() and callable(configure)


def find_full_rate(group: dict[str, Any]) -> Any:
    """Return the rate that a schedule multiplies, or the highest rate of a `OneCycleLR`."""
    return group.get("max_lr", group["initial_lr"])


def weights() -> dict[str, np.ndarray]:
    """Return the weights and buffers that the model begins with."""
    return {name: to_wide_array(tensor) for name, tensor in list_state(make_plain_model())}


def list_state(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Return weights and buffers, without descriptions that packages keep with them."""
    state = model.state_dict().items()
    return [(name, tensor) for name, tensor in state if isinstance(tensor, Tensor)]


def to_wide_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor in NumPy: integers unchanged, real numbers in at least float32.

    NumPy has no bfloat16.
    """
    if tensor.is_floating_point() and tensor.dtype != torch.float64:
        tensor = tensor.float()
    return tensor.numpy(force=True)


def batch(size: int) -> tuple[Any, Any]:
    """Return inputs and targets. Raises Fault.

    The tensors have numbers even in a mode of fake tensors.
    """
    with keep_on_host(), _disable_current_modes():
        inputs, targets = user().make_batch(size)
        return map_tree(to_canonical, inputs), map_tree(to_canonical, targets)


def to_canonical(tensor: Tensor) -> np.ndarray | Tensor:
    """Return a tensor as a NumPy array.

    Sparse and nested tensors, which NumPy lacks, are only detached, and so are numbers in 16 bits
    or fewer, whose type is to stay.
    """
    is_narrow = tensor.is_floating_point() and tensor.itemsize < FLOAT32_BYTES
    if tensor.layout != torch.strided or tensor.is_nested or is_narrow:
        return tensor.detach()
    return to_wide_array(tensor)


def facts(size: int) -> ModelFacts:
    """Return the facts of the file's model for the parent, which does not import PyTorch.

    `size` is the number of samples in a batch. Raises Fault.
    """
    model = make_plain_model()
    with keep_on_host():
        inputs, targets = user().make_batch(size)
    weight_facts = describe_weights(model)
    modules = dict(model.named_modules())
    description = user_blocks.describe_model(
        modules,
        choose_blocks(model, inputs, targets),
        inputs,
        targets,
        batch_norms=[name for name in list_names(model, NORMS) if uses_batch(model, name)],
        has_convolutions=bool(list_names(model, nn.Conv2d)),
    )
    sparse = [name for name, module in modules.items() if getattr(module, "sparse", 0) is True]
    return {
        **description,
        **weight_facts,
        **_describe_optimizer(model),
        "levels": [user_blocks.name_classes(level) for level in list_levels(model)],
        "uncut": user().explain_uncut(inputs, size),
        "convolutions": bool(list_names(model, nn.modules.conv._ConvNd)),
        "own_step": user().has_step(),
        "configures_optimizer": configures_optimizer(model),
        "compiled": any(is_compiled(module) for module in modules.values()),
        "sparse": sparse[:1],  # one is enough for a message
    }


def read_facts_of_shapes(size: int) -> ModelFacts:
    """Return the facts of the file's model without making a weight: all tensors are fake."""
    # imported here, since no measured step needs them
    from framebench.adapters.torch.fake_mode import make_fake_mode
    from framebench.adapters.torch.fake_modules import convertible_modules
    from framebench.adapters.torch.fake_numbers import KnownNumbers

    # packages are imported with numbers, as they may compute tables of them
    import_packages(load_workload(USER_MODEL).facts["file"])
    with (
        make_fake_mode(allow_non_fake_inputs=True),
        KnownNumbers(),
        convertible_modules(),
        plain_4bit_weights(),
    ):
        return facts(size)


def uses_batch(model: nn.Module, name: str) -> bool:
    """Return whether a batch norm of a model normalises by the batch in training.

    Otherwise it does so by its running statistics, since the file has put it into evaluation. A
    model that is in evaluation as a whole is put into training before its steps.
    """
    norm = model.get_submodule(name)
    return norm.training or not model.training or norm.running_mean is None


def describe_weights(model: nn.Module) -> ModelFacts:
    """Return the facts of a model's weights (`facts`). Raises Fault if no weight is trained."""
    parameters = dict(model.named_parameters())
    with_tied = dict(model.named_parameters(remove_duplicate=False))
    trained = {name for name, p in with_tied.items() if p.requires_grad}
    if not trained:
        raise user().fault("model", "no weight of the model asks for a gradient")
    numbers = []
    for name, tensor in list_state(model):
        if tensor.is_floating_point() or tensor.is_complex():
            numbers.append((name, list(tensor.shape), name in trained))
    return {
        "params": numbers,
        "tied": sorted(with_tied.keys() - parameters.keys()),
        "parameters": _count_weights(model),
        "types": count_types(model),
        "complex": [name for name, p in parameters.items() if p.is_complex()],
    }


def count_types(model: nn.Module) -> dict[str, int]:
    """Return how many numbers the weights have of each type, such as `bfloat16` or `nf4`."""
    numbers: Counter[str] = Counter()
    for p in model.parameters():
        numbers[read_4bit_type(p) or name_dtype(p.dtype)] += p.numel()
    return dict(numbers)


def is_compiled(module: nn.Module) -> bool:
    """Return whether the file has compiled a module."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None


def _describe_optimizer(model: nn.Module) -> ModelFacts:
    """Return the facts of the file's optimizer (`facts`). Raises Fault."""
    if "optimizer" not in user() and not configures_optimizer(model):
        return {"optimizer": "SGD"}
    file_optimizer = optimizer(model.parameters())
    parts = list_parts(file_optimizer)
    description = describe_optimizer(file_optimizer)
    if len(parts) > 1:
        description += ", which step() steps" if user().has_step() else ", which step together"
    rates = set()
    for group in file_optimizer.param_groups:
        if "initial_lr" in group:
            rates.add(find_full_rate(group))
    if rates and not user().has_step():
        listed = ", ".join(str(rate) for rate in sorted(rates))
        description += f" at its full rate of {listed}, without its schedule"
    inner_names = []  # of the optimizers that other optimizers wrap
    for part in parts:
        inner_names += [type(inner).__name__ for inner in list_inner(part)]
    return {
        "optimizer": description,
        "closure": needs_closure(file_optimizer),
        "passes": asks_for_closure(file_optimizer),
        "hooks": has_hooks(file_optimizer),
        "inner": inner_names,
    }


def run_step(model: nn.Module, batch: tuple[Any, Any], optimizer: Any) -> Tensor:
    """Make the file's own training step, and return its loss. Raises Fault.

    It gets the optimizer as the file's `optimizer` returned it, with schedules.
    """
    file_optimizer = getattr(optimizer, "returned", optimizer)
    step_loss = user().make_step(model, batch, file_optimizer)
    return torch.as_tensor(step_loss).detach().reshape(())


def find_named_period(adapter: Any) -> int:
    """Return the period in steps after which the optimizer does more, as Lookahead does; or 1."""
    return min(LONGEST_PERIOD, max(find_period(part) for part in list_parts(adapter.optimizer)))


def compute_gradient(adapter: Any) -> tuple[float, list[tuple[str, np.ndarray]]]:
    """Return the loss of the adapter's inputs, and the gradients of a backward pass."""
    adapter.seed()
    value = adapter.backward_pass().item()
    gradients = []
    for name, p in adapter.model.named_parameters():
        if p.grad is not None:
            dense = p.grad.to_dense() if p.grad.is_sparse else p.grad
            gradients.append((name, to_wide_array(dense)))
    return value, gradients


def list_changed_in_blocks(adapter: Any) -> list[str]:
    """Return the tensors that forward passes of blocks change in a step without training them.

    Statistics of batch norm do not count: recomputation does not change them a second time.
    Integers do not either, since they are not compared. The adapter ends with its first weights.
    """
    names = {module: name for name, module in adapter.model.named_modules()}
    tensors_before: dict[nn.Module, dict[str, Tensor]] = {}
    changed: list[str] = []

    def enter(block: nn.Module, *_: Any) -> None:
        tensors_before[block] = {
            name: t.clone() for name, t in list_untrained(block, names).items()
        }

    def leave(block: nn.Module, *_: Any) -> None:
        tensors = tensors_before.pop(block)
        for name, tensor in list_untrained(block, names).items():
            if not torch.equal(tensor, tensors[name]):
                changed.append(name)

    with ExitStack() as stack:
        for block in adapter.blocks():
            stack.enter_context(block.register_forward_pre_hook(enter))
            stack.enter_context(block.register_forward_hook(leave))
        stack.enter_context(adapter.disable_randomness())
        adapter.step()
    adapter.restore()
    return list(dict.fromkeys(changed))  # each once, in their order


def list_untrained(block: nn.Module, names: dict[nn.Module, str]) -> dict[str, Tensor]:
    """Return the real and complex tensors of a block that are not trained, except batch norm's.

    `names` has the name of each of the model's modules.
    """
    tensors: dict[str, Tensor] = {}
    for module in block.modules():
        if module not in names or isinstance(module, NORMS):
            continue
        for name, tensor in module.named_buffers(names[module], recurse=False):
            tensors[name] = tensor
        for name, p in module.named_parameters(names[module], recurse=False):
            if not p.requires_grad:
                tensors[name] = p
    return {n: t for n, t in tensors.items() if t.is_floating_point() or t.is_complex()}


def record_outputs(adapter: Any) -> list[tuple[str, Tensor]]:
    """Return the first tensor that each innermost module gives in one more forward pass."""
    outputs: list[tuple[str, Tensor]] = []

    def record(name: str, module: Any, args: Any, output: Any) -> None:
        for tensor in list(iterate_arrays(output))[:1]:
            outputs.append((f"{name} ({type(module).__name__})", tensor.detach().clone()))

    with ExitStack() as stack:
        for name, module in adapter.model.named_modules():
            if not list(module.children()):
                stack.enter_context(module.register_forward_hook(partial(record, name)))
        stack.enter_context(torch.no_grad())
        call_with(adapter.model, adapter.inputs[0])
    return outputs


def find_first_random(adapter: Any) -> str:
    """Return in words where a second forward pass first differs, or "" if nowhere."""
    for (name, a), (_, b) in zip(record_outputs(adapter), record_outputs(adapter)):
        if not torch.equal(a, b):
            return f"first in the output of {name}"
    return ""


def find_first_infinite(adapter: Any) -> str:
    """Return in words where an output is first infinite or NaN, or "" if nowhere."""
    for name, output in record_outputs(adapter):
        if not output.isfinite().all():
            return f"first in the output of {name}"
    return ""
