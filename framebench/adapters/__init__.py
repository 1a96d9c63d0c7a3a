"""One adapter per framework.

An adapter and the model files are the only places where its framework is imported.
"""

from __future__ import annotations

import gc
import importlib
from types import ModuleType

from framebench.adapters.base import Adapter
from framebench.suite.case import Case


def load(case: Case) -> Adapter:
    """Import the case's framework, and return the adapter."""
    adapter: Adapter = import_adapters(case).make(case)
    return adapter


def load_frozen(case: Case) -> Adapter:
    """Return the adapter in a process where the framework's own objects are frozen.

    Python's collector then need not look through them. Objects that the case makes, or that a
    user's file imports, are not frozen.
    """
    module = import_adapters(case)
    if hasattr(module, "import_the_rest"):
        module.import_the_rest()
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
    Adapter.unfreezes = False
    adapter: Adapter = module.make(case)
    return adapter


def import_adapters(case: Case) -> ModuleType:
    """Import the adapters of the case's framework, and so the framework."""
    return importlib.import_module(f"framebench.adapters.{case.framework}")
