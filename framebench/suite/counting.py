"""Write numbers and ranges in words."""

from __future__ import annotations


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 case`, `2 cases`.

    `plural` is only needed where it is not the noun with an s. A noun may be several words, such as
    `other fits` with the plural `others fit`.
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {plural or f'{noun}s'}"


def format_span(first: str, last: str) -> str:
    """Return `first to last`, or the one text if both are equal."""
    if first == last:
        return first
    return f"{first} to {last}"
