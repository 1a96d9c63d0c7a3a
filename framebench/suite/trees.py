"""Walk inputs, targets and outputs as people write them.

They are an array, or arrays in tuples, lists, dictionaries and dataclasses. No framework is
imported: an array is what has a `shape`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

PLAIN = (bool, int, float, str, type(None))  # passed on as they are


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return the same tree with the function's result in place of each array."""
    if isinstance(tree, PLAIN):
        return tree
    if isinstance(tree, Mapping):
        return {key: map_tree(function, value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [map_tree(function, value) for value in tree]
    if isinstance(tree, tuple):
        return tuple(map_tree(function, value) for value in tree)
    return function(tree)


def iterate_arrays(tree: Any) -> Iterator[Any]:
    """Yield the arrays of a tree, in order."""
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    elif is_dataclass(tree) and not isinstance(tree, type):
        tree = [getattr(tree, field.name) for field in fields(tree)]
    if isinstance(tree, tuple | list):
        for branch in tree:
            yield from iterate_arrays(branch)
    elif hasattr(tree, "shape"):
        yield tree


def call_with(function: Callable[..., Any], inputs: Any) -> Any:
    """Call a function as people call a model.

    A dictionary holds its keywords, a tuple or a list its arguments.
    """
    if isinstance(inputs, Mapping):
        return function(**inputs)
    if isinstance(inputs, tuple | list):
        return function(*inputs)
    return function(inputs)


def count_samples(inputs: Any) -> int:
    """Return the first axis of the first array that has one, or 0."""
    for array in iterate_arrays(inputs):
        if len(array.shape):
            return int(array.shape[0])
    return 0


def split(tree: Any, parts: int) -> list[Any]:
    """Return the micro-batches of a tree of arrays.

    An array whose first axis has no samples, such as a mask for all of them, goes with each.
    """
    if parts == 1:
        return [tree]
    samples = count_samples(tree)
    size = samples // parts

    def take(start: int) -> Callable[[Any], Any]:
        def cut(array: Any) -> Any:
            has_samples = tuple(array.shape)[:1] == (samples,)
            return array[start : start + size] if has_samples else array

        return cut

    return [map_tree(take(number * size), tree) for number in range(parts)]
