"""What a user's program holds beside what a step is known to need, and under which name: a teacher that the loss calls, a
matrix that is no buffer, an activation that a module keeps. Names are looked for from the model's attributes and from the
globals of the files that lie beside the user's.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from framebench.suite.user_file import NAME

Bytes = dict[int, int]  # of a storage, by its address
Storages = Callable[[Any], Bytes]  # of an object that is an array, else empty
Root = tuple[str, Any]  # what it is called, and what may hold arrays
CLOSED = (ModuleType, CodeType, FrameType)
ATOMS = (bool, int, float, complex, str, bytes, type(None))
MOST = 200_000  # objects that are looked at below one name


def find_holders(roots: Iterable[Root], storages: Storages, known: Iterable[int], others: Iterable[Any] = ()) -> dict[str, int]:
    """Bytes by holder, of storages at no known address. `others`: arrays that exist, whether a name leads to them or not."""
    seen, bytes_by_holder = set(known), dict[str, int]()

    def entered(name: str, found: Iterable[Any]) -> None:
        new = {at: size for each in found for at, size in storages(each).items() if at and at not in seen}
        seen.update(new)
        if total := sum(new.values()):
            bytes_by_holder[name] = bytes_by_holder.get(name, 0) + total

    closed = {id(vars(module)) for module in [*sys.modules.values()] if isinstance(module, ModuleType)}
    for name, root in roots:
        entered(name, below(root, closed))
    entered("nothing that has a name in your file", others)
    return bytes_by_holder


def below(root: Any, closed: set[int]) -> Iterator[Any]:
    """The objects that are reached from this one, itself first, but by way of none whose id is `closed`."""
    seen, ahead = {id(root)}, [root]
    while ahead and len(seen) < MOST:
        one = ahead.pop()
        yield one
        if not isinstance(one, ATOMS):
            new = [o for o in gc.get_referents(one) if id(o) not in seen and id(o) not in closed and open_(o)]
            seen.update(map(id, new))
            ahead += new


def open_(other: Any) -> bool:
    """Not modules, nor classes that others wrote: from there everything is reached."""
    if isinstance(other, type):
        return other.__module__ == NAME
    return not isinstance(other, CLOSED)


def own_modules(file: str) -> list[ModuleType]:
    """The user's file, as far as it is loaded, and the modules that lie beside it."""
    folder = Path(file).absolute().parent
    loaded = [sys.modules[NAME]] if NAME in sys.modules else []
    for module in [*sys.modules.values()]:
        where = getattr(module, "__file__", None) or ""
        if not where.startswith(str(folder)):
            continue
        path = Path(where)
        if path.is_relative_to(folder) and "site-packages" not in path.relative_to(folder).parts and module not in loaded:
            loaded.append(module)
    return loaded


def iterate_globals(file: str) -> Iterator[Root]:
    for module in own_modules(file):
        for name, value in [*vars(module).items()]:
            if not name.startswith("__") and open_(value):
                yield f"the global `{name}` of {Path(str(module.__file__)).name}", value


def find_array_storage(array: Any) -> Bytes:
    """Of an array of NumPy's that owns its numbers, or is a view of one that does."""
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    if type(array) is not np.ndarray or array.base is not None:
        return {}
    return {array.__array_interface__["data"][0]: array.nbytes}
