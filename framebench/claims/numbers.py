"""Print the numbers of claims: `-38.2 % (-38.9 to -37.5)`."""

from __future__ import annotations

from collections.abc import Iterable

UNITS = {"points": " points", "change": " %", "share": " %", "error": " %"}


def format_number(value: float, form: str) -> str:
    """Return a number in the form of its measure: `-38.2 %`."""
    return f"{format_value(value, form)}{UNITS.get(form, '')}"


def format_value(value: float, form: str) -> str:
    """Return a number without its unit: `-38.2` for 0.618, as a change in per cent."""
    if form == "count":
        return f"{value:,.0f}"
    if form == "number":
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
    if form == "change":
        return f"{100 * (value - 1):+,.1f}"
    # "share", "points" and "error" are shares of one, printed in per cent
    digits = 3 if form == "error" and abs(value) < 0.001 else 1
    return f"{100 * value:,.{digits}f}"


def format_effect(value: float | None, low: float | None, high: float | None, form: str) -> str:
    """Return a number with its interval, or `-` if there is no value.

    If number and interval are printed alike, the interval is left out.
    """
    if value is None:
        return "-"
    text = format_number(value, form)
    if low is None or high is None:
        return f"{text} (no interval)"
    ends = [format_value(end, form) for end in (low, high)]
    if set(ends) == {format_value(value, form)}:
        return text
    return f"{text} ({ends[0]} to {ends[1]})"


def format_range(values: Iterable[float], form: str) -> str:
    """Return the first and the last of some numbers with the unit once: `-38.2 to +4.0 %`.

    The caller has put the numbers in order. If the two are printed alike, only one is.
    """
    ordered = list(values)
    first = format_value(ordered[0], form)
    last = format_value(ordered[-1], form)
    text = first if first == last else f"{first} to {last}"
    return text + UNITS.get(form, "")
