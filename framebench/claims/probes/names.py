"""Look up whether attribute paths exist in a framework.

`python -m framebench.claims.probes.names jittor.nn.BatchNorm3d ...`.

A path whose parent does not exist does not exist either. Modules that were not imported yet count
as existing.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys


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


if __name__ == "__main__":
    print(json.dumps({path: exists(path) for path in sys.argv[1:]}))
    sys.stdout.flush()
    os._exit(0)  # as the worker does: Jittor's clean-up at exit sometimes crashes
