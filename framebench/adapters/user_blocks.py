"""What checkpointing recomputes in a user's model: the blocks that the file names, or else what repeats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from framebench.adapters.user_functions import UserFile
from framebench.suite.user_file import Fault


@dataclass(frozen=True)
class Kind:
    """A framework's modules: all of a module and in it, how many weights they hold, and those that only hold others."""

    modules: Callable[[Any], list[Any]]
    size: Callable[[Any], int]
    containers: tuple[type, ...]


def blocks_in(model: Any, user: UserFile, kind: Kind) -> list[Any]:
    """Those that the file names, or else the modules of the class of which there are several, and which hold most; none where
    there is no such class. Raises Fault."""
    named = getattr(user.module, "blocks", None)
    if named is None:
        return repeated(model, kind)
    every, classes = kind.modules(model), named if isinstance(named, tuple) else (named,)
    of_classes = all(isinstance(one, type) for one in classes)
    block_modules = [m for m in every if isinstance(m, classes)] if of_classes else list(named(model))
    if not block_modules or not {id(m) for m in block_modules} <= {id(m) for m in every}:
        raise Fault(f"{user.line('blocks')}: blocks must be classes, or a function that lists modules of the model")
    return block_modules


def repeated(model: Any, kind: Kind) -> list[Any]:
    """Of modules with modules in them. Containers count only where there is nothing else."""
    kinds: dict[type, list[Any]] = {}
    for module in kind.modules(model):
        if module is not model and len(kind.modules(module)) > 1 and kind.size(module):
            kinds.setdefault(type(module), []).append(module)
    several = {name: outer for name, class_modules in kinds.items() if len(outer := outermost(class_modules, kind)) > 1}
    without_containers = {name: class_modules for name, class_modules in several.items() if name not in kind.containers}
    return max(
        (without_containers or several).values(), key=lambda class_modules: sum(map(kind.size, class_modules)), default=[]
    )


def outermost(modules: list[Any], kind: Kind) -> list[Any]:
    """Without those that lie in others of them."""
    inside = {id(part) for module in modules for part in kind.modules(module) if part is not module}
    return [module for module in modules if id(module) not in inside]
