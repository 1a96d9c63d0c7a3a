"""Look up whether attribute paths exist in a framework.

`python -m framebench.claims.probes.names jittor jittor.nn.BatchNorm3d ...`.

A path whose parent does not exist does not exist either. Modules that were not imported yet count
as existing. `jittor.**word**` asks for any public name that contains the word, in any module of the
package that is imported; the names that are found are printed too.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections.abc import Iterable
from types import ModuleType


def exists(path: str) -> bool:
    """Return whether an attribute or a module of this path exists."""
    root, *names = path.split(".")
    try:
        functools.reduce(getattr, names, importlib.import_module(root))
        return True
    except AttributeError:
        pass
    try:
        importlib.import_module(path)
        return True
    except ModuleNotFoundError:
        return False


def match_names(names: Iterable[str], word: str) -> list[str]:
    """Return the public names that contain a word."""
    return [name for name in names if word in name.lower() and not name.startswith("_")]


def search(pattern: str) -> list[str]:
    """Return the names in modules and classes that contain the word of `package.**word**`."""
    package, _, word = pattern.rstrip("*").partition(".**")
    found: set[str] = set()
    for module_name, module in list(sys.modules.items()):
        if module_name == package or module_name.startswith(f"{package}."):
            found.update(f"{module.__name__}.{name}" for name in search_module(module, word))
    return sorted(found)


def search_module(module: ModuleType, word: str) -> list[str]:
    """Return the public names of a module and of its classes that contain a word."""
    found = match_names(dir(module), word)
    for class_name, value in vars(module).items():
        if isinstance(value, type):
            found += [f"{class_name}.{name}" for name in match_names(vars(value), word)]
    return found


def look_up(paths: list[str]) -> dict[str, bool]:
    """Return whether each path exists, and the names that the patterns among them found."""
    answers = {}
    names_found: list[str] = []
    for path in paths:
        if "**" in path:
            names = search(path)
            names_found += names
            answers[path] = bool(names)
        else:
            answers[path] = exists(path)
    return answers | dict.fromkeys(names_found, True)


if __name__ == "__main__":
    importlib.import_module(sys.argv[1])
    print(json.dumps(look_up(sys.argv[2:])))
    sys.stdout.flush()
    os._exit(0)  # as the worker does: Jittor's clean-up at exit sometimes crashes
