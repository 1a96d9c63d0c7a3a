"""How memory changed from step to step, as `framebench grow CASE --json` prints it."""

from __future__ import annotations

from typing import Literal

from framebench.records.record_parts import RecordPart


class Leftover(RecordPart):
    """The things of one kind and from one place that the watched steps left behind."""

    # of Python; of a tensor in PyTorch; of a program; of operations, for a backward pass
    kind: Literal["object", "storage", "compilation", "graph"]
    what: str  # type and shape; the operator that made it; the function
    made_at: str  # file:line; empty if it is unknown
    per_step: float
    bytes_per_step: int | None
    note: str = ""  # what holds it


class Growth(RecordPart):
    """Readings after each of some steps, and what some more steps left behind."""

    case: str
    file: str | None  # whose `step` was called in place of the case's
    warm_up: int  # steps before the first reading
    bytes: dict[str, tuple[int, ...]]  # by instrument, after each step
    rises: tuple[int, ...] = ()  # by which each step raised resident memory; empty on a GPU
    counts: dict[str, tuple[int, ...]]  # arrays, programs, variables, operations
    watched: int  # steps that `kept` is about
    kept: tuple[Leftover, ...]  # of each kind those with most bytes, which come first
    # by a few steps in each half of the watch: causes if memory grows
    rarely_kept: tuple[Leftover, ...] = ()
    versions: dict[str, str]
    device: str
