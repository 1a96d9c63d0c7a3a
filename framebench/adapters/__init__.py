"""One adapter per framework.

An adapter and the model files are the only places where its framework is imported.
"""

from __future__ import annotations

import gc
import importlib
from types import ModuleType

from framebench.adapters.base import Adapter, Switch
from framebench.suite.case import Case


def load(case: Case) -> Adapter:
    """Import the case's framework, and return the adapter."""
    adapter: Adapter = import_framework(case).ADAPTER(case, find_switches(case))
    return adapter


def load_frozen(case: Case) -> Adapter:
    """Return the adapter in a process where the framework's own objects are frozen.

    Python's collector then need not look through them. Objects that the case makes, or that a
    user's file imports, are not frozen.
    """
    package = import_framework(case)
    if hasattr(package, "import_the_rest"):
        package.import_the_rest()
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
    Adapter.undoes_gc_freeze = False
    return load(case)


def import_framework(case: Case) -> ModuleType:
    """Import the package of the case's framework, and so the framework."""
    return importlib.import_module(f"framebench.adapters.{case.framework}")


def find_switches(case: Case) -> dict[str, Switch]:
    """Return the switches that the case can need, by the name in a row's `switch`."""
    package = import_framework(case)
    switches: dict[str, Switch] = package.SWITCHES
    if case.ranks == 1:
        return switches
    # imported here, since it would add to the memory and the start of every other case
    ranks = importlib.import_module(f"{package.__name__}.ranks")
    return switches | ranks.switch.by_name
