"""Find the memory that a user's program holds besides what a step needs, and the names it is under.

Examples are a teacher that the loss calls, a matrix that is no buffer, or an activation that a
module keeps. The search begins at named roots: attributes of the model, and globals of the user's
files.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from framebench.suite.user_file import NAME

StorageBytes = dict[int, int]  # by the storage's address
FindStorages = Callable[[Any], StorageBytes]  # the storages of an array; none of any other object
Root = tuple[str, Any]  # a name for an object, and the object
CLOSED = (ModuleType, CodeType, FrameType)
ATOMS = (bool, int, float, complex, str, bytes, type(None))
MOST_VISITED = 200_000  # objects below one root
NAMELESS = "nothing that has a name in your file"
END = object()  # returned by `next` at the end of an iterator


def find_holders(
    roots: Iterable[Root],
    find_storages: FindStorages,
    excluded: Iterable[int],
    others: Iterable[Any] = (),
) -> dict[str, int]:
    """Return the bytes that can be reached from each root, by the root's name.

    Each storage counts once, for the first root that leads to it. The name of a root with more
    than `MOST_VISITED` objects says that the rest was not searched.

    Args:
        roots: Where the search begins.
        find_storages: Returns the storages of an object.
        excluded: Addresses of storages that do not count.
        others: All arrays that exist. Arrays that no root leads to count as `NAMELESS`.
    """
    counted = set(excluded)
    bytes_by_holder: Counter[str] = Counter()

    def add(name: str, objects: Iterable[Any]) -> None:
        total = 0
        for instance in objects:
            for address, size in find_storages(instance).items():
                if address and size and address not in counted:
                    counted.add(address)
                    total += size
        if total:
            bytes_by_holder[name] += total

    closed = list_namespaces()
    for name, root in roots:
        objects = walk_objects(root, closed)
        searched = list(islice(objects, MOST_VISITED))
        if next(objects, END) is not END:
            name = f"{name}, of which {MOST_VISITED:,} objects were searched"
        add(name, searched)
    add(NAMELESS, others)
    return dict(bytes_by_holder)


def list_namespaces() -> set[int]:
    """Return the ids of the namespaces of all modules, which lead to all objects of the process."""
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    return {id(vars(module)) for module in modules}


def walk_objects(root: Any, closed: set[int]) -> Iterator[Any]:
    """Yield an object and all that it refers to, each once.

    The walk does not enter objects whose id is in `closed`, and leaves out numbers and texts. It is
    depth first: where it ends early, it has seen some elements of a list with all that is in them.
    """
    yield root
    visited = {id(root)}
    pending = [iter(list_referents(root))]
    while pending:
        other = next(pending[-1], END)
        if other is END:  # all of this object's referents were seen
            pending.pop()
            continue
        is_known = id(other) in visited or id(other) in closed
        if is_known or isinstance(other, ATOMS) or not may_enter(other):
            continue
        visited.add(id(other))
        yield other
        pending.append(iter(list_referents(other)))


def list_referents(instance: Any) -> list[Any]:
    """Return the objects that an object refers to.

    Python's collector does not look into an array of objects.
    """
    if isinstance(instance, np.ndarray) and instance.dtype == object:
        return list(instance.flat)
    return gc.get_referents(instance)


def may_enter(other: Any) -> bool:
    """Return whether a walk goes on at this object.

    Modules, code, frames, and classes outside the user's file lead to all objects of the process.
    """
    if isinstance(other, type):
        return other.__module__ == NAME
    return not isinstance(other, CLOSED)


def list_user_modules(file: str) -> list[ModuleType]:
    """Return the user's file, if it is loaded, and the loaded modules that lie next to it."""
    folder = Path(file).absolute().parent
    modules = [sys.modules[NAME]] if NAME in sys.modules else []
    for module in list(sys.modules.values()):
        source = getattr(module, "__file__", None) or ""
        if not source.startswith(str(folder)):  # quick, and most modules end here
            continue
        path = Path(source)
        if not path.is_relative_to(folder) or "site-packages" in path.relative_to(folder).parts:
            continue
        if module not in modules:
            modules.append(module)
    return modules


def iterate_globals(file: str) -> Iterator[Root]:
    """Yield the globals of the user's modules as roots."""
    for module in list_user_modules(file):
        for name, value in list(vars(module).items()):
            if not name.startswith("__") and may_enter(value):
                yield f"the global `{name}` of {Path(str(module.__file__)).name}", value


def walk_globals(file: str) -> Iterator[Any]:
    """Yield the objects that globals of the user's modules lead to, some of them more than once.

    They lie, for instance, in a teacher, in a list, or in the closure of a function. Of each global
    the first MOST_VISITED objects are yielded.
    """
    closed = list_namespaces()
    for _, root in iterate_globals(file):
        yield from islice(walk_objects(root, closed), MOST_VISITED)


def find_array_storage(array: Any) -> StorageBytes:
    """Return the storage of a NumPy array that owns its numbers or is a view of one that does."""
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    if type(array) is not np.ndarray or array.base is not None:
        return {}
    return {array.__array_interface__["data"][0]: array.nbytes}
