"""Inputs, targets and outputs as people write them: an array, or arrays in tuples, lists, dictionaries and dataclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

PLAIN = (bool, int, float, str, type(None))  # passed on as they are


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same tree with the function of each array in its place."""
    if isinstance(tree, PLAIN):
        return tree
    if isinstance(tree, Mapping):
        return {key: mapped(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        each = [mapped(function, value) for value in tree]
        return each if isinstance(tree, list) else tuple(each)
    return function(tree)


def leaves(tree: Any) -> Iterator[Any]:
    """The arrays in it, in order."""
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    elif is_dataclass(tree) and not isinstance(tree, type):
        tree = [getattr(tree, field.name) for field in fields(tree)]
    if isinstance(tree, tuple | list):
        for one in tree:
            yield from leaves(one)
    elif hasattr(tree, "shape"):
        yield tree


def called(function: Callable[..., Any], inputs: Any) -> Any:
    """As people call a model: a dictionary is its keywords, a tuple or a list its arguments."""
    if isinstance(inputs, Mapping):
        return function(**inputs)
    if isinstance(inputs, tuple | list):
        return function(*inputs)
    return function(inputs)


def samples(inputs: Any) -> int:
    """Of these inputs: the first axis of the first array that has one."""
    return next((int(array.shape[0]) for array in leaves(inputs) if len(array.shape)), 0)


def split(tree: Any, parts: int) -> list[Any]:
    """Micro-batches. An array whose first axis has no samples, such as a mask for all of them, goes with each."""
    if parts == 1:
        return [tree]
    rows = samples(tree)

    def part(number: int) -> Callable[[Any], Any]:
        size = rows // parts
        return lambda array: array[number * size : (number + 1) * size] if array.shape[:1] == (rows,) else array

    return [mapped(part(number), tree) for number in range(parts)]
