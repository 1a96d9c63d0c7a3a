"""The smallest error that verification always finds: the tolerances that follow from the honest errors, in short."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from statistics import median

from analysis.comparison import Comparison, number
from framebench.suite.tolerance import LEAST, MULTIPLE, honest, machines, measured, tolerance
from models import spec

HEAD = (
    "workload", "size", "precision", "framework", "size of a gradient", "gradient", "change of a weight", "buffer", "output",
)  # fmt: skip


def comparison() -> Comparison:
    """A row for each workload, size, precision and framework that was measured."""
    where = ", ".join(sorted({name for workload in spec.NAMES for name in machines(workload)}))
    caption = (
        "Relative errors, of the median and of the worst family of tensors. `size of a gradient`: where its norm is off by "
        "more, it is certain to be found wrong, whichever weight's it is. The others: errors of any direction, by three random "
        "projections; at ten times the tolerance one tensor in 700 would pass by chance, and an error is seldom in one tensor. "
        f"Tolerances are {MULTIPLE:g} times the largest honest error, as measured on {where}."
    )
    return Comparison.of_text("Errors that verification sees", caption, HEAD, tuple(rows()), left=4)


def rows() -> Iterator[tuple[str, ...]]:
    kinds = (("gradient", 0), ("gradient", 1), ("weight", 1), ("buffer", 1), ("output", 1))
    for name, precision in product(spec.NAMES, LEAST):
        for size, framework in product(spec.workload(name).sizes, measured(name, precision)):
            if keys := [key for key in measured(name, precision)[framework] if key.startswith(f"{size}/")]:
                yield name, size, precision, framework, *(cell(name, framework, precision, keys, *kind) for kind in kinds)


def cell(workload: str, framework: str, precision: str, keys: list[str], kind: str, which: int) -> str:
    """Median and largest tolerance over the families of this kind, without those that must not move."""
    found: dict[str, float] = {}
    for key in keys:
        for family in honest(workload, framework, precision, key).get(kind, {}):
            allowed = tolerance(workload, framework, precision, key, kind, family)[which]
            found[family] = max(found.get(family, 0.0), allowed)
    moving = [allowed for family, allowed in found.items() if not family.startswith("teacher.")]
    return f"{number(median(moving), '.0e')} / {number(max(moving), '.0e')}" if moving else "-"
