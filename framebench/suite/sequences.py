"""Two steps with lists that many modules take: drop duplicates, and group by a key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
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
