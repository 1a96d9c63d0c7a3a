"""How asv prints results here: peaks in the MiB of our tables, each table under its title, no rows of n/a alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def with_mib(human_value: Callable[..., str]) -> Callable[..., str]:
    """Wrap asv's printing of a value: a peak has one decimal and its unit, as everywhere else.

    asv itself knows "bytes", which it prints in powers of 1000, and prints other units with every digit and without their name.
    """

    @wraps(human_value)
    def shown(value: Any, unit: str, err: float | None = None) -> str:
        is_number = isinstance(value, (int, float)) and value == value  # NaN is not itself
        if unit == "MiB" and is_number:
            return f"{value:.1f}MiB"  # without a space, at which `asv compare` would part it
        return human_value(value, unit, err=err)

    return shown


def with_title(format_result: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Wrap asv's table of a benchmark: put its title above, which names the unit or the instrument, and drop empty rows.

    In a large profile the rows that have nothing but n/a are hundreds.
    """

    @wraps(format_result)
    def shown(result: Any, benchmark: dict[str, Any], *options: Any) -> list[str]:
        lines = format_result(result, benchmark, *options)
        names = benchmark["param_names"]
        head = next((line.split() for line in lines if names[:1] == line.split()[:1]), [])
        parameters = len(set(head).intersection(names))  # the others have a column for each value
        kept = [line for line in lines if set(line.split()[parameters:]) != {"n/a"}]
        title = benchmark.get("pretty_name")
        return [title, *kept] if title else kept

    return shown
