"""Steps with lists that many modules take: drop duplicates, group by a key, cut into batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Unique = TypeVar("Unique", bound=Hashable)
Key = TypeVar("Key", bound=Hashable)


def drop_duplicates(items: Iterable[Unique]) -> list[Unique]:
    """Return each item once, in the order of the first occurrences."""
    return list(dict.fromkeys(items))


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by their key, without sorting: keys and items stay in order.

    `itertools.groupby` would begin a new group wherever the key of successive items changes.
    """
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def cut_into_batches(items: list[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in batches of this size; the last may be smaller."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
