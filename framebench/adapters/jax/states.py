"""Name the states of an optax optimizer as those of all frameworks, by canonical weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.tree_util import DictKey, GetAttrKey
from optax.contrib import SAMState

from framebench.adapters.base import State
from framebench.adapters.jax.accumulation import Tree
from framebench.models import flax_weights

Path = tuple[Any, ...]  # of a leaf: the keys of JAX on the way to it
# the kind of state by optax's field
KINDS = {"trace": "momentum", "mu": "first moment", "nu": "second moment", "v": "second moment"}
ADAFACTOR_MEANS = ("v_row", "v_col")  # fields of Adafactor for a matrix
ADAFACTOR_FIELDS = (*ADAFACTOR_MEANS, "v")
# the field in which a state counts the steps of a period, and begins again at 0
PERIOD_COUNTERS: dict[type, str] = {
    optax.MultiStepsState: "mini_step",
    optax.ApplyEvery: "count",
    SAMState: "steps_since_sync",
}


def read_states(
    state: Tree,
    params: Tree,
    names: flax_weights.CanonicalNames,
    to_numpy: Callable[[Array], np.ndarray],
    rename: Callable[[Path], Path] | None = None,
) -> Iterator[State]:
    """Yield the optimizer's states, one for each canonical weight.

    In optax a state is a tree like that of the weights, in a field of a named tuple.

    Args:
        state: The state of the optimizer.
        params: The weights that the optimizer updates.
        names: The canonical names of the weights.
        to_numpy: Copies an array to the host.
        rename: Returns a leaf's path with the name that its weight has in the model.
    """
    for path, value in jax.tree_util.tree_leaves_with_path(state):
        if rename:
            path = rename(path)
        fields, weight_path = split_path(path)
        field = fields[-1] if fields else ""
        if not is_moment(fields, value):
            continue
        if field in ADAFACTOR_MEANS:
            yield name_mean(field, weight_path, to_numpy(value), params, names)
            continue
        kind = KINDS.get(field, field)
        array = to_numpy(value)
        if not names.has(weight_path):  # a user's optimizer for a part of a model
            yield State(kind, name=name_by_path(path), array=array, nbytes=value.nbytes)
            continue
        for name, canonical in names.restore_leaf(weight_path, array):
            yield State(kind, name=name, array=canonical, nbytes=canonical.nbytes)


def is_moment(fields: list[str], value: Array) -> bool:
    """Return whether a leaf of an optimizer's state, below these fields, is a moment of weights."""
    field = fields[-1] if fields else ""
    if "acc_grads" in fields:  # gradients that MultiSteps adds up: no state, as PyTorch's `.grad`
        return False
    if value.ndim == 0 and field not in KINDS:  # a count of steps
        return False
    is_placeholder = field in ADAFACTOR_FIELDS and value.shape == (1,)
    return not is_placeholder


def split_path(path: tuple[Any, ...]) -> tuple[list[str], list[Any]]:
    """Split a leaf's path into the fields on it and the dictionary keys after the last field."""
    fields: list[str] = []
    weight_path: list[Any] = []
    for entry in path:
        if isinstance(entry, GetAttrKey):
            fields.append(entry.name)
            weight_path = []
        elif isinstance(entry, DictKey):
            weight_path.append(entry.key)
    return fields, weight_path


def name_by_path(path: tuple[Any, ...]) -> str:
    """Return a name of a leaf that begins with the number of its optimizer."""
    keys = [str(getattr(entry, "key", getattr(entry, "idx", ""))) for entry in path]
    return ".".join(key for key in keys if key)


def name_mean(
    field: str,
    path: list[Any],
    value: np.ndarray,
    params: Tree,
    names: flax_weights.CanonicalNames,
) -> State:
    """Return a mean of squared gradients that Adafactor keeps for each row or column of a weight.

    It is called by the axis that is left in the canonical layout of the weight.

    Args:
        field: Its field in optax's state, `v_row` or `v_col`.
        path: The keys of the weight in `params`.
        value: The mean.
        params: The weights.
        names: Their canonical names.
    """
    weight = params
    for key in path:
        weight = weight[key]
    canonical_names = names.list_names(path)
    if weight.ndim != 2 or len(canonical_names) > 1:
        # only a single matrix has rows and columns: other weights have Flax's name
        name = ".".join(map(str, path))
        return State(field, name=name, array=value, nbytes=value.nbytes)
    # optax's `v_row` has only the shorter axis of a leaf, `v_col` only the longer one
    shorter_axis, longer_axis = np.argsort(weight.shape)
    axis = shorter_axis if field == "v_row" else longer_axis
    if names.is_transposed(path):
        axis = 1 - axis
    kind = "row mean" if axis == 0 else "column mean"
    return State(kind, name=canonical_names[0], array=value, nbytes=value.nbytes)


def find_state(state: Tree, kind: type) -> Any:
    """Return the state of this type among the states of optimizers that wrap one another."""
    leaves = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, kind))
    return next(leaf for leaf in leaves if isinstance(leaf, kind))


def read_period_counters(state: Tree) -> list[int]:
    """Return how far each optimizer is in its period, of those that have one (MultiSteps, SAM).

    A wrapped optimizer that has a period itself is not looked for.
    """
    kinds = tuple(PERIOD_COUNTERS)
    counters = []
    for leaf in jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, kinds)):
        if isinstance(leaf, kinds):
            counters.append(int(getattr(leaf, PERIOD_COUNTERS[type(leaf)])))
    return counters


def copy_shared(state: Tree, params: Tree) -> Tree:
    """Return an optimizer's state in which the arrays that are weights are copies of them.

    Some optimizers begin with the weights themselves in their state, as SAM in optax. A step that
    is given an array twice cannot write into it.
    """
    weight_ids = {id(weight) for weight in jax.tree.leaves(params)}
    arrays, structure = jax.tree.flatten(state)
    for number, array in enumerate(arrays):
        if id(array) in weight_ids:
            arrays[number] = jnp.copy(array)
    return jax.tree.unflatten(structure, arrays)


def list_keys(path: tuple[Any, ...]) -> list[Any]:
    """Return the keys of the dictionaries on the way to a leaf."""
    return [entry.key for entry in path if isinstance(entry, DictKey)]
