"""One adapter per framework: the only place, besides the model files, where that framework is imported."""

from __future__ import annotations

import importlib

from framebench.adapters.base import Adapter
from framebench.suite.case import Case


def load(case: Case) -> Adapter:
    """The adapter of the case's framework; imports the framework."""
    return importlib.import_module(f"framebench.adapters.{case.framework}").make(case)
