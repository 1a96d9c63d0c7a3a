"""Whether attribute paths exist in a framework: `python -m framebench.claims.probes.names jittor
jittor.nn.BatchNorm3d ...`.

A path whose parent does not exist does not exist either. Modules that were not imported yet count as existing.
`jittor.**word**` asks for any public name that contains the word, in any module of the package that is imported; what is found
is said too.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys


def exists(path: str) -> bool:
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


def matching(pattern: str) -> list[str]:
    """Public names that contain the word of `package.**word**`."""
    package, _, word = pattern.rstrip("*").partition(".**")
    modules = [module for name, module in sys.modules.items() if name == package or name.startswith(f"{package}.")]
    names = {
        f"{module.__name__}.{name}" for module in modules for name in dir(module) if word in name.lower() and name[0] != "_"
    }
    members = {
        f"{module.__name__}.{of}.{name}"
        for module in modules for of, each in vars(module).items() if isinstance(each, type)
        for name in vars(each) if word in name.lower() and name[0] != "_"
    }  # fmt: skip
    return sorted(names | members)


def looked_up(paths: list[str]) -> dict[str, bool]:
    """Each path, and what the patterns among them found."""
    found = {path: matching(path) for path in paths if "**" in path}
    asked = {path: bool(found[path]) if path in found else exists(path) for path in paths}
    return asked | {name: True for names in found.values() for name in names}


if __name__ == "__main__":
    importlib.import_module(sys.argv[1])
    print(json.dumps(looked_up(sys.argv[2:])))
    sys.stdout.flush()
    os._exit(0)  # as the worker does: Jittor's clean-up at exit sometimes crashes
