"""Kinds of records that features keep."""

from __future__ import annotations

import importlib
from typing import Any

from framebench.extensions import features


def record_kinds() -> dict[str, Any]:
    """The class of each kind of record that features keep, by its folder or file below a results folder; imported now."""
    kinds = {}
    for name, feature in features().items():
        for place, target in feature.records.items():
            module, _, kind = target.partition(":")
            kinds[place] = getattr(importlib.import_module(f"framebench.features.{name}.{module}"), kind)
    return kinds
