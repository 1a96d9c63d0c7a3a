"""Find the blocks of a user's model: the units that checkpointing recomputes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framebench.adapters.user_functions import UserFile
from framebench.models.user_facts import ModelFacts
from framebench.suite.trees import list_arrays


@dataclass(frozen=True)
class ModuleAccess:
    """Functions that read a framework's modules."""

    modules: Callable[[Any], list[Any]]  # a module and all modules in it
    size: Callable[[Any], int]  # how many weights a module holds
    containers: tuple[type, ...]  # classes of modules that only hold others


def call_block(block: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a block: the model's `block_runner` unless a strategy replaces it."""
    return block(*args, **kwargs)


def make_routed_call(model: Any, body: Any) -> Callable[..., Any]:
    """Return the function that takes the place of a block's own forward function.

    It passes `body`, which computes the same as the block, to the model's `block_runner`. The
    runner is looked up at each call, since a strategy may set it later.
    """

    def run_by_model(*args: Any, **kwargs: Any) -> Any:
        return model.block_runner(body, *args, **kwargs)

    return run_by_model


def route_blocks(
    model: Any, blocks: Sequence[Any], body_class: Callable[[Any], Any], method: str
) -> None:
    """Replace each block's method by a call of the model's `block_runner`.

    The runner is given what computes the same as the block, an instance of `body_class`. These are
    the model's `bodies`.
    """
    model.block_runner = call_block
    bodies = []
    for block in blocks:
        body = body_class(block)
        setattr(block, method, make_routed_call(model, body))
        bodies.append(body)
    # a tuple, so that the framework does not register them as submodules
    model.bodies = tuple(bodies)


def find_named_or_repeated(model: Any, user: UserFile, access: ModuleAccess) -> list[Any]:
    """Return the blocks that the file names in `blocks`, or the repeated modules of most weights.

    Raises Fault if `blocks` names none, or something that is no module of the model.
    """
    declared = getattr(user.module, "blocks", None)  # classes, or a function that lists modules
    if declared is None:
        levels = list_levels(model, access)
        return max(levels, key=lambda level: sum(map(access.size, level)), default=[])
    modules = access.modules(model)
    if isinstance(declared, type | tuple):
        blocks = [module for module in modules if isinstance(module, declared)]
    else:
        blocks = list(declared(model))
    block_ids = set(map(id, blocks))
    if not blocks or not block_ids <= set(map(id, modules)):
        raise user.fault(
            "blocks",
            "blocks must be classes, or a function that lists modules of the model, each of which "
            "is called in a forward pass",
        )
    return blocks


def list_levels(model: Any, access: ModuleAccess) -> list[list[Any]]:
    """Return a list of modules for each class that the model has several of, side by side.

    Only modules with weights and with modules inside count. If modules of a class lie in each
    other, only the outermost count. Containers, such as an `nn.Sequential`, count only where
    nothing else repeats.
    """
    modules_by_class: dict[type, list[Any]] = {}
    for module in access.modules(model):
        has_modules = len(access.modules(module)) > 1
        if module is not model and has_modules and access.size(module):
            modules_by_class.setdefault(type(module), []).append(module)
    levels: list[list[Any]] = []
    levels_of_containers: list[list[Any]] = []
    for module_class, modules in modules_by_class.items():
        outermost = select_outermost(modules, access)
        if len(outermost) < 2:
            continue
        if module_class in access.containers:
            levels_of_containers.append(outermost)
        else:
            levels.append(outermost)
    return levels or levels_of_containers


def join_levels(levels: list[list[Any]], access: ModuleAccess) -> list[Any]:
    """Return the outermost modules of all levels, as the layers of an encoder and of a decoder.

    Returns an empty list if they are of one class: then they are a level already.
    """
    modules: list[Any] = []
    for level in levels:
        modules += level
    outermost = select_outermost(modules, access)
    classes = {type(module) for module in outermost}
    return outermost if len(classes) > 1 else []


def name_classes(modules: Sequence[Any]) -> str:
    """Return the names of the classes of some modules, sorted and separated by commas."""
    return ", ".join(sorted({type(module).__name__ for module in modules}))


def select_outermost(modules: list[Any], access: ModuleAccess) -> list[Any]:
    """Return the modules that lie in none of the others."""
    inside: set[int] = set()
    for module in modules:
        inside.update(id(part) for part in access.modules(module) if part is not module)
    return [module for module in modules if id(module) not in inside]


def describe_model(
    modules: Mapping[str, Any],
    blocks: list[Any],
    inputs: Any,
    targets: Any,
    batch_norms: Sequence[str],
    has_convolutions: bool,
) -> ModelFacts:
    """Return the facts of a user's model that are read the same way in every framework.

    Args:
        modules: The modules of the model by name.
        blocks: The model's blocks, which are among them.
        inputs: The inputs of the file's batch.
        targets: The targets of the file's batch; there may be none.
        batch_norms: The names of the modules that couple the samples of a batch.
        has_convolutions: Whether the model has convolutions that may be 2-D.
    """
    names = {id(module): name for name, module in modules.items()}
    first_input, *_ = list_arrays(inputs)
    target_arrays = list_arrays(targets)
    return {
        "blocks": [names[id(block)] for block in blocks],
        "block": name_classes(blocks),
        # by which the samples of a batch influence each other: one is enough for a message
        "couples": list(batch_norms[:1]),
        "images": len(first_input.shape) == 4 and has_convolutions,
        "input": list(first_input.shape),
        "target": list(target_arrays[0].shape) if target_arrays else [],
    }
