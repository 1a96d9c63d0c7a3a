"""Walk inputs, targets and outputs as people write them.

They are an array, or arrays in tuples, lists, dictionaries, dataclasses and other objects. No
framework is imported: an array is what has a `shape` and a `dtype`.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, cast

PLAIN = (bool, int, float, str, type(None))  # passed on unchanged
MapArray = Callable[[Any], Any]


def is_array(node: Any) -> bool:
    """Return whether something is an array of any framework."""
    # a class such as np.ndarray has the attributes too, and is no array
    return not isinstance(node, type) and hasattr(node, "shape") and hasattr(node, "dtype")


def is_never_leaf(node: Any) -> bool:
    """Return False, as the default of `is_leaf`: every container is walked into."""
    return False


def map_tree(function: MapArray, tree: Any, is_leaf: Callable[[Any], bool] = is_never_leaf) -> Any:
    """Return the same tree with the function's result in place of each array.

    Containers keep their classes. Whatever else there is, such as a graph or an encoding of a
    package, is copied with its arrays replaced. A part for which `is_leaf` is true is passed to the
    function as a whole.
    """
    if isinstance(tree, PLAIN):
        return tree
    if is_leaf(tree) or is_array(tree):
        return function(tree)
    if isinstance(tree, Mapping):
        return _map_mapping(function, tree, is_leaf)
    if isinstance(tree, list | tuple):
        branches = [map_tree(function, branch, is_leaf) for branch in tree]
        if isinstance(tree, list):
            return branches
        return type(tree)._make(branches) if hasattr(tree, "_make") else tuple(branches)
    if is_dataclass(tree) and not isinstance(tree, type):
        return _map_dataclass(function, tree, is_leaf)
    return _map_object(function, tree)


def _map_mapping(
    function: MapArray, mapping: Mapping[Any, Any], is_leaf: Callable[[Any], bool]
) -> Mapping[Any, Any]:
    """Return a mapping of the same class with its values mapped, or a dictionary of them."""
    mapped = {key: map_tree(function, value, is_leaf) for key, value in mapping.items()}
    if type(mapping) is dict:
        return mapped
    same_class: Any = copy.copy(mapping)
    try:
        for key, value in mapped.items():
            same_class[key] = value
    except (TypeError, ValueError, AttributeError):  # the mapping cannot be written to
        return mapped
    return cast(Mapping[Any, Any], same_class)


def _map_dataclass(function: MapArray, instance: Any, is_leaf: Callable[[Any], bool]) -> Any:
    """Return a copy of a dataclass's instance with its fields mapped."""
    same_class = copy.copy(instance)
    for field in fields(instance):
        value = map_tree(function, getattr(instance, field.name), is_leaf)
        object.__setattr__(same_class, field.name, value)  # a frozen one refuses the usual way
    return same_class


class ArrayPickler(pickle.Pickler):
    """Pickle an object without the arrays in it, which are mapped and listed in `arrays`."""

    def __init__(self, file: io.BytesIO, function: MapArray) -> None:
        """Pickle into `file`, and map each array by `function`."""
        super().__init__(file)
        self.function = function
        self.arrays: list[Any] = []
        self.index_by_id: dict[int, int] = {}  # index in `arrays`, by the identity of the array

    def persistent_id(self, instance: Any) -> int | None:
        """Return the index of an array in `arrays`; None for anything else, which is pickled."""
        if not is_array(instance):
            return None
        if id(instance) not in self.index_by_id:
            self.index_by_id[id(instance)] = len(self.arrays)
            self.arrays.append(self.function(instance))
        return self.index_by_id[id(instance)]


class ArrayUnpickler(pickle.Unpickler):
    """Make an object again that `ArrayPickler` has pickled, with other arrays."""

    def __init__(self, file: io.BytesIO, arrays: list[Any]) -> None:
        """Read from `file`, with `arrays` at the places that the pickler has numbered."""
        super().__init__(file)
        self.arrays = arrays

    def persistent_load(self, place: int) -> Any:
        """Return the array at a place."""
        return self.arrays[place]


def _map_object(function: MapArray, instance: Any) -> Any:
    """Return a copy of an object with its arrays mapped.

    The object is copied as a loader's processes pass it on: by pickle. An object that has no
    arrays, or cannot be pickled, is returned itself.
    """
    file = io.BytesIO()
    pickler = ArrayPickler(file, function)
    try:
        pickler.dump(instance)
    except (pickle.PicklingError, TypeError, AttributeError):
        return instance
    if not pickler.arrays:
        return instance
    file.seek(0)
    return ArrayUnpickler(file, pickler.arrays).load()


def iterate_arrays(tree: Any) -> Iterator[Any]:
    """Yield the arrays of a model's output, in order.

    Objects other than mappings, lists, tuples and dataclasses are passed over: an output may hold
    the model itself. `list_arrays` looks into them, for inputs.
    """
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    elif is_dataclass(tree) and not isinstance(tree, type):
        tree = [getattr(tree, field.name) for field in fields(tree)]
    if isinstance(tree, tuple | list):
        for branch in tree:
            yield from iterate_arrays(branch)
    elif hasattr(tree, "shape"):
        yield tree


def list_arrays(tree: Any, is_leaf: Callable[[Any], bool] = is_never_leaf) -> list[Any]:
    """Return all arrays of inputs or targets, also those in objects of other classes.

    A part for which `is_leaf` is true is in the list as a whole.
    """
    leaves: list[Any] = []

    def keep(node: Any) -> Any:
        leaves.append(node)
        return node

    map_tree(keep, tree, is_leaf)
    return leaves


def call_with(function: Callable[..., Any], inputs: Any) -> Any:
    """Call a function as people call a model.

    A dictionary holds its keywords, a tuple or a list its arguments; a named tuple is one argument.
    """
    if isinstance(inputs, Mapping):
        return function(**inputs)
    if are_arguments(inputs):
        return function(*inputs)
    return function(inputs)


def are_arguments(inputs: Any) -> bool:
    """Return whether inputs are the arguments of a call, one by one; a named tuple is not."""
    return isinstance(inputs, tuple | list) and not hasattr(inputs, "_fields")


def read_batch_length(inputs: Any) -> int:
    """Return the length of the first axis of the first array that has one, or 0."""
    for array in iterate_arrays(inputs):
        if len(array.shape):
            return int(array.shape[0])
    return 0


def select_rows(output: Any, is_inexact: Callable[[Any], bool]) -> list[Any]:
    """Return the arrays of a model's output that have a row of numbers for each sample.

    The arrays are floating-point or complex, or of any type if no array is. Left out are scalars,
    unless there is nothing else, and arrays with fewer rows than the longest.
    """
    arrays = list(iterate_arrays(output))
    with_rows = [array for array in arrays if len(array.shape) > 0]
    if not with_rows:
        return arrays
    inexact = [array for array in with_rows if is_inexact(array)]
    candidates = inexact or with_rows
    rows = max(array.shape[0] for array in candidates)
    return [array for array in candidates if array.shape[0] == rows]


def has_axis_of(node: Any, samples: int) -> bool:
    """Return whether something is an array with so many samples along its first axis."""
    return is_array(node) and tuple(node.shape)[:1] == (samples,)


def is_list_of_samples(node: Any, samples: int) -> bool:
    """Return whether a list or tuple has an entry for each sample.

    An entry is one sample's array, dictionary, text or number. A list of arrays that each have all
    samples is no list of samples. Nor is a tuple of arrays of different kinds: these are arguments.
    """
    if not isinstance(node, list | tuple) or len(node) != samples or hasattr(node, "_fields"):
        return False
    if isinstance(node, list):
        return not all(has_axis_of(entry, samples) for entry in node)
    kinds = set()
    for entry in node:
        if isinstance(entry, list | tuple) or has_axis_of(entry, samples):
            return False
        if is_array(entry):
            kinds.add((str(entry.dtype), len(entry.shape)))
        else:
            kinds.add((type(entry).__name__, 0))
    return len(kinds) == 1


def is_opaque(node: Any) -> bool:
    """Return whether the arrays of something cannot be cut one by one.

    They cannot in objects of packages, nor in PyTorch's packed sequences, where one array refers
    to another.
    """
    containers = PLAIN + (Mapping, list, tuple)
    is_container = isinstance(node, containers) or is_dataclass(node) or is_array(node)
    return not is_container or type(node).__name__ == "PackedSequence"


def can_split(inputs: Any, samples: int) -> bool:
    """Return whether `split` can cut inputs into parts by samples.

    Something in the inputs must have samples, and each opaque object must be divisible as a whole.
    """

    def is_leaf(node: Any) -> bool:
        return is_opaque(node) or is_list_of_samples(node, samples)

    has_samples = False
    for leaf in list_arrays(inputs, is_leaf):
        if is_opaque(leaf):
            arrays = list_arrays(leaf)
            if not all(has_axis_of(array, samples) for array in arrays):
                return False
            has_samples = has_samples or bool(arrays)
        elif is_list_of_samples(leaf, samples) or has_axis_of(leaf, samples):
            has_samples = True
    return has_samples


def split(tree: Any, parts: int, samples: int = 0) -> list[Any]:
    """Return the micro-batches of a tree of arrays.

    An array whose first axis has no samples, such as a mask for all samples, goes with each
    micro-batch. `samples` is the batch's number of samples, by default the length of the first
    array.
    """
    if parts == 1:
        return [tree]
    samples = samples or read_batch_length(tree)
    size = samples // parts

    def is_leaf(node: Any) -> bool:
        return is_list_of_samples(node, samples)

    def cut(node: Any, start: int) -> Any:
        if is_leaf(node) or has_axis_of(node, samples):
            return node[start : start + size]
        return node

    return [map_tree(partial(cut, start=number * size), tree, is_leaf) for number in range(parts)]
