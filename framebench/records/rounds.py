"""Pairs of records that were made for a comparison."""

from __future__ import annotations

from typing import NamedTuple

from framebench.records.record import Record


class Round(NamedTuple):
    """One record of each arm; `base` is what `change` is compared with."""

    base: Record
    change: Record
