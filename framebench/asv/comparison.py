"""What `asv compare` is told: asv takes the lower value for the better one, and has a row for every combination of parameters.

For `asv publish` asv.conf.json says that throughput has no regressions: its losses are those of step time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

HIGHER_IS_BETTER = "track_throughput"


class _Higher(float):
    """A value that is better when it is higher."""


def with_direction(unroll: Callable[..., Iterator[tuple[Any, ...]]]) -> Callable[..., Iterator[tuple[Any, ...]]]:
    """Results of a benchmark one by one, (name, value, ...), as asv unrolls them; without those that are n/a."""

    @wraps(unroll)
    def unrolled(benchmark: str, *results: Any) -> Iterator[tuple[Any, ...]]:
        for name, value, *others in unroll(benchmark, *results):
            if value is not None and benchmark.endswith(HIGHER_IS_BETTER):
                value = _Higher(value)
            if value == value:  # NaN is not itself
                yield name, value, *others

    return unrolled


def either_way(better: Callable[..., bool]) -> Callable[..., bool]:
    """asv's test whether one result is better than the other by a factor."""

    @wraps(better)
    def compared(one: float, other: float, of_one: Any, of_other: Any, *factor: Any, **options: Any) -> bool:
        if isinstance(one, _Higher):
            one, other, of_one, of_other = other, one, of_other, of_one
        return better(one, other, of_one, of_other, *factor, **options)

    return compared
