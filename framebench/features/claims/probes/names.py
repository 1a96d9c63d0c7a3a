"""Whether attribute paths exist in a framework: `python -m framebench.features.claims.probes.names jittor
jittor.nn.BatchNorm3d ...`.

A path whose parent does not exist does not exist either. Modules that were not imported yet count as existing.
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


if __name__ == "__main__":
    importlib.import_module(sys.argv[1])
    print(json.dumps({path: exists(path) for path in sys.argv[2:]}))
    sys.stdout.flush()
    os._exit(0)  # as the worker does: Jittor's clean-up at exit sometimes crashes
