"""The smallest error that verification always finds: the tolerances that follow from the rounding errors, in short."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from statistics import median

from framebench.analysis.comparison import Comparison, number
from framebench.analysis.results import Results
from framebench.models import spec
from framebench.suite.tolerance import LEAST, MULTIPLE, Pair, group, machines, measured, rounding_errors, tolerance

HEAD = (
    "workload", "size", "precision", "framework",
    "size of a gradient", "gradient", "change of a weight", "update", "buffer", "output",
)  # fmt: skip


def comparison() -> Comparison:
    """A row for each workload, size, precision and framework that was measured."""
    where = ", ".join(sorted({name for workload in spec.names() for name in machines(workload)}))
    caption = (
        "Relative errors, of the median and of the worst family of tensors over a workload's variants. `size of a gradient`: "
        "where its norm is off by more, it is certain to be found wrong, whichever weight's it is. The others: errors of any "
        "direction, by three random projections; at ten times the tolerance one tensor in 700 would pass by chance, and an "
        "error is seldom in one tensor. "
        "`update`: of a weight's change beside what the textbook makes of the optimizer's own states. "
        f"Tolerances are {MULTIPLE:g} times the largest rounding error, as measured on {where}, or what sums over positions "
        f"cost where one term is added after the other, if that is more. {certain()}"
    )
    return Comparison.of_text("Errors that verification sees", caption, HEAD, tuple(rows()), left=4)


def certain() -> str:
    """From which size on an error in the norm of any one gradient is seen in plain training, by precision: half of the families
    of tensors of all variants, and all of them."""
    clauses = []
    for precision in LEAST:
        allowed_errors = [
            allowed[0]
            for name in spec.names()
            for framework, keys in measured(name, precision).items()
            for allowed in tolerances(
                name, framework, precision, [k for k in keys if group(k)[1:] == ("train", ())], "gradient"
            )
        ]
        if allowed_errors:
            clauses.append(f"{number(median(allowed_errors), '.0e')} and {number(max(allowed_errors), '.0e')} in {precision}")
    return f"Certain to be seen in any gradient of plain training, in the median and in the worst family: {'; '.join(clauses)}."


def rows() -> Iterator[tuple[str, ...]]:
    kinds = (("gradient", 0), ("gradient", 1), ("weight", 1), ("update", 1), ("buffer", 1), ("output", 1))
    for name, precision in product(spec.names(), LEAST):
        for size, framework, micro in product(spec.workload(name).sizes, measured(name, precision), ("", ", micro-batches")):
            measured_keys = measured(name, precision)[framework]
            if keys := [key for key in measured_keys if group(key)[0] == size and bool(group(key)[2]) == bool(micro)]:
                yield (
                    name,
                    size + micro,
                    precision,
                    framework,
                    *(cell(name, framework, precision, keys, *kind) for kind in kinds),
                )


def cell(workload: str, framework: str, precision: str, keys: list[str], kind: str, which: int) -> str:
    """Median and largest tolerance over the families of this kind and the keys, without those that must not move."""
    moving = [allowed[which] for allowed in tolerances(workload, framework, precision, keys, kind)]
    return f"{number(median(moving), '.0e')} / {number(max(moving), '.0e')}" if moving else "-"


def tolerances(workload: str, framework: str, precision: str, keys: list[str], kind: str) -> list[Pair]:
    """Of each family of this kind that may move, for each key."""
    return [
        tolerance(workload, framework, precision, key, kind, family)
        for key in keys
        for family in rounding_errors(workload, framework, precision, key).get(kind, {})
        if not family.startswith("teacher.")
    ]


def documents(results: Results) -> list[Comparison]:
    """The same table, whatever the results are."""
    return [comparison()]
