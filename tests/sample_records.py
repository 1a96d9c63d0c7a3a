"""A few real records that never change, for tests of code: a copy in the layout of results/."""

from __future__ import annotations

from functools import cache

from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.records.record import Record

RESULTS = ROOT / "tests" / "data" / "results"
MACHINE = "xeon-2core"  # has most of them
OTHER = "zen4-2core"  # has bfloat16's wrong one
IN_HERE = ("--results", str(RESULTS), "--machine", MACHINE)  # as a command is told


@cache
def read_sample() -> tuple[Record, ...]:
    """Return all of them, read once per test process."""
    return tuple(store.read_all(RESULTS))
