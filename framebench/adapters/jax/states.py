"""What an optax optimizer keeps, by the names that the frameworks' optimizers share and those of the canonical weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.tree_util import DictKey, GetAttrKey

from framebench.adapters.base import State
from framebench.adapters.jax.accumulation import Tree
from framebench.models import flax_weights

KINDS = {"trace": "momentum", "mu": "first moment", "nu": "second moment", "v": "second moment"}
MEANS = ("v_row", "v_col")  # Adafactor's, of a matrix


def named_states(
    state: Tree, params: Tree, names: flax_weights.Names, values: Callable[[Array], np.ndarray]
) -> Iterator[State]:
    """In optax a state is a tree like the weights' in a field of a named tuple; counts are numbers. The gradients that
    `MultiSteps` adds up are no state of the update, as little as PyTorch's `.grad`. Where Adafactor keeps nothing, a single
    number stands."""
    for path, value in jax.tree_util.tree_leaves_with_path(state):
        at = max((i for i, entry in enumerate(path) if isinstance(entry, GetAttrKey)), default=-1)
        field, path = [entry.name for entry in path if isinstance(entry, GetAttrKey)], path[at + 1 :]
        stands_in = field and field[-1] in (*MEANS, "v") and value.shape == (1,)
        count = value.ndim == 0 and field[-1:] not in ([kind] for kind in KINDS)  # a weight may be one number, too
        if count or "acc_grads" in field or stands_in:
            continue
        if field[-1] in MEANS:
            yield mean(field[-1], keys(path), values(value), params, names)
            continue
        for name, array in names.unload(keys(path), values(value)):
            yield State(KINDS.get(field[-1], field[-1]), name, array, array.nbytes)


def mean(field: str, path: list[Any], value: np.ndarray, params: Tree, names: flax_weights.Names) -> State:
    """optax calls that `v_row` which is left of a leaf without its longer axis; a row is one of the canonical weight. What
    has more axes, or holds several layers, goes by Flax's own name."""
    weight = params
    for key in path:
        weight = weight[key]
    canonical = names.of(path)
    if weight.ndim != 2 or len(canonical) > 1:
        return State(field, ".".join(map(str, path)), value, value.nbytes)
    axis = int(np.argsort(weight.shape)[MEANS.index(field)]) ^ names.turned(path)
    return State(("row mean", "column mean")[axis], canonical[0], value, value.nbytes)


def part_of_state(state: Tree, kind: type) -> Any:
    """Of this type, among the states of optimizers that wrap one another."""
    leaves = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, kind))
    return next(leaf for leaf in leaves if isinstance(leaf, kind))


def keys(path: tuple[Any, ...]) -> list[Any]:
    """Of the dictionaries on the way to a leaf."""
    return [entry.key for entry in path if isinstance(entry, DictKey)]
