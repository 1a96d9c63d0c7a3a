"""Find the blocks of a user's model: the units that checkpointing recomputes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from framebench.adapters.user_functions import UserFile
from framebench.suite.trees import list_arrays


@dataclass(frozen=True)
class ModuleAccess:
    """How a framework's modules are read."""

    modules: Callable[[Any], list[Any]]  # a module and all modules in it
    size: Callable[[Any], int]  # how many weights a module holds
    containers: tuple[type, ...]  # classes of modules that only hold others


def find_blocks(model: Any, user: UserFile, access: ModuleAccess) -> list[Any]:
    """Return the blocks that the file names in `blocks`, or the repeated class of most weights.

    Raises Fault if `blocks` names none, or something that is no module of the model.
    """
    named = getattr(user.module, "blocks", None)
    if named is None:
        levels = list_levels(model, access)
        return max(levels, key=lambda blocks: sum(map(access.size, blocks)), default=[])
    modules = access.modules(model)
    classes = named if isinstance(named, tuple) else (named,)
    if all(isinstance(one, type) for one in classes):
        blocks = [module for module in modules if isinstance(module, classes)]
    else:
        blocks = list(named(model))
    identities = {id(module) for module in modules}
    if not blocks or any(id(block) not in identities for block in blocks):
        raise user.fault(
            "blocks", "blocks must be classes, or a function that lists modules of the model"
        )
    return blocks


def list_levels(model: Any, access: ModuleAccess) -> list[list[Any]]:
    """Return the modules of each class that repeats.

    Only modules with modules inside count. Containers count only where nothing else repeats.
    """
    by_class: dict[type, list[Any]] = {}
    for module in access.modules(model):
        has_modules = len(access.modules(module)) > 1
        if module is not model and has_modules and access.size(module):
            by_class.setdefault(type(module), []).append(module)
    repeated: dict[type, list[Any]] = {}
    for cls, modules in by_class.items():
        inside: set[int] = set()  # the modules that lie in others of the class
        for module in modules:
            inside.update(id(part) for part in access.modules(module) if part is not module)
        blocks = [module for module in modules if id(module) not in inside]
        if len(blocks) > 1:
            repeated[cls] = blocks
    others = {cls: blocks for cls, blocks in repeated.items() if cls not in access.containers}
    return list((others or repeated).values())


def describe_model(
    blocks: list[Any],
    names: Mapping[int, str],
    inputs: Any,
    targets: Any,
) -> dict[str, Any]:
    """Return the facts of a user's model that are read the same way in every framework.

    Args:
        blocks: The model's blocks.
        names: The name of each of its modules, by `id`.
        inputs: Those of the file's batch.
        targets: Likewise; there may be none.
    """
    classes = {type(block).__name__ for block in blocks}
    first_input = list_arrays(inputs)[0]
    target_arrays = list_arrays(targets)
    return {
        "blocks": [names[id(block)] for block in blocks],
        "block": ", ".join(sorted(classes)),
        "input": list(first_input.shape),
        "target": list(target_arrays[0].shape) if target_arrays else [],
    }
