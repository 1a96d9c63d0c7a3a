"""Load canonical weights (PyTorch's names and layouts) into a Flax NNX model, by attribute path.

Only names and layouts differ: Flax is channels last, keeps a convolution's kernel as
(*spatial, in, out), a linear one as (in, out), and does not flip the kernel of a transposed
convolution as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from flax import nnx
from jax.typing import DTypeLike

Convert = Callable[[np.ndarray], np.ndarray]
LeafPath = tuple[Any, ...]  # attribute names, indices of lists, keys of dictionaries

CANONICAL_LEAVES = {  # by Flax's name
    "kernel": "weight",
    "scale": "weight",
    "embedding": "weight",
    "bias": "bias",
    "mean": "running_mean",
    "var": "running_var",
}


class WeightsMismatch(ValueError):
    """The weights and the model do not name the same parameters; the message lists which."""


def transpose_linear(w: np.ndarray) -> np.ndarray:
    """Turn (out, in) into (in, out), or back."""
    return w.T


def convert_conv(w: np.ndarray) -> np.ndarray:
    """Turn (out, in, *spatial) into (*spatial, in, out)."""
    return np.moveaxis(w, (0, 1), (-1, -2))


def restore_conv(w: np.ndarray) -> np.ndarray:
    """Turn (*spatial, in, out) into (out, in, *spatial)."""
    return np.moveaxis(w, (-1, -2), (0, 1))


def convert_conv_transpose(w: np.ndarray) -> np.ndarray:
    """Turn (in, out, *spatial) into (*flipped spatial, in, out)."""
    spatial = tuple(range(w.ndim - 2))
    return np.flip(np.moveaxis(w, (0, 1), (-2, -1)), spatial)


def restore_conv_transpose(w: np.ndarray) -> np.ndarray:
    """Turn (*flipped spatial, in, out) into (in, out, *spatial)."""
    spatial = tuple(range(w.ndim - 2))
    return np.moveaxis(np.flip(w, spatial), (-2, -1), (0, 1))


CONVERTERS: dict[type, Convert] = {
    nnx.Linear: transpose_linear,
    nnx.Conv: convert_conv,
    nnx.ConvTranspose: convert_conv_transpose,
}
RESTORERS: dict[Convert, Convert] = {  # from Flax's layout to the canonical one
    np.asarray: np.asarray,
    transpose_linear: transpose_linear,
    convert_conv: restore_conv,
    convert_conv_transpose: restore_conv_transpose,
}


def find_converter(module: nnx.Module, leaf: str) -> Convert:
    """Return the function that converts the canonical array of a leaf to Flax's layout.

    A subclass has the layout of its parent.
    """
    if leaf == "kernel":
        for kind, convert in CONVERTERS.items():
            if isinstance(module, kind):
                return convert
    return np.asarray


def name_leaf(path: Sequence[Any]) -> str:
    """Return the canonical name of the leaf at `path`.

    For stacked layers it is the name without the layer's number.
    """
    *parents, leaf = path
    return ".".join([*map(str, parents), CANONICAL_LEAVES.get(leaf, leaf)])


def find_sources(path: LeafPath, weights: Collection[str]) -> list[str]:
    """Return the canonical names behind the leaf at `path`.

    There is one, or one per layer if the first attribute holds stacked layers.
    """
    name = name_leaf(path)
    if name in weights:
        return [name]
    head, rest = name.split(".", 1)
    stacked = [f"{head}.{i}.{rest}" for i in range(len(weights))]
    return [name for name in stacked if name in weights]


def iterate_leaves(model: nnx.Module) -> Iterator[tuple[nnx.Module, LeafPath, nnx.Variable]]:
    """Yield (layer, path, variable) of every array that is no state of random numbers."""
    for path, module in nnx.iter_modules(model):
        for name, value in vars(module).items():
            for inner, variable in iterate_variables(value):
                yield module, (*path, name, *inner), variable


def iterate_variables(value: Any) -> Iterator[tuple[LeafPath, nnx.Variable]]:
    """Yield the variables in an attribute, each with its path below it.

    Linen's layers are dictionaries where NNX has modules.
    """
    if isinstance(value, nnx.Variable) and not isinstance(value, nnx.RngState):
        yield (), value
    elif isinstance(value, dict):
        for name, inner in value.items():
            for path, variable in iterate_variables(inner):
                yield (name, *path), variable


def load_weights(model: nnx.Module, weights: Mapping[str, np.ndarray], dtype: DTypeLike) -> None:
    """Fill a model, which may be abstract (`nnx.eval_shape`), with NumPy arrays of `dtype`.

    Raises WeightsMismatch.
    """
    unused = set(weights)
    missing = []
    for module, path, variable in iterate_leaves(model):
        names = find_sources(path, weights)
        unused -= set(names)
        convert = find_converter(module, path[-1])
        arrays = [convert(weights[name]) for name in names]
        is_stacked = names != [name_leaf(path)]
        value = np.array(arrays) if is_stacked else arrays[0]
        if value.shape == variable.shape:
            variable.set_value(np.ascontiguousarray(value, dtype))
        else:
            missing.append(f"{'.'.join(map(str, path))} {variable.shape}")
    if missing or unused:
        left_over = sorted(unused)
        raise WeightsMismatch(
            f"without canonical weights: {missing}; canonical weights left over: {left_over}"
        )


class CanonicalNames:
    """Convert a model's paths and layouts back to canonical names and layouts.

    `names` are the canonical names that the model may have.
    """

    def __init__(self, model: nnx.Module, names: Collection[str]) -> None:
        """Choose for each leaf of the model how its layout is restored."""
        self.names = names
        self.restorers: dict[tuple[str, ...], Convert] = {}
        for module, path, _ in iterate_leaves(model):
            self.restorers[make_key(path)] = RESTORERS[find_converter(module, path[-1])]

    def has(self, path: Sequence[Any]) -> bool:
        """Return whether the model has a leaf at `path`."""
        return make_key(path) in self.restorers

    def list_names(self, path: Sequence[Any]) -> list[str]:
        """Return the names of the leaf at `path`: several if it holds the layers of a stack."""
        return find_sources(tuple(path), self.names)

    def is_transposed(self, path: Sequence[Any]) -> bool:
        """Return whether Flax has the canonical matrix's rows as columns."""
        return self.restorers[make_key(path)] is transpose_linear

    def restore_leaf(
        self, path: Sequence[Any], value: np.ndarray
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yield (name, array) of each canonical tensor of the leaf at `path`.

        A leaf that holds stacked layers has one for each layer.
        """
        restore = self.restorers[make_key(path)]
        names = self.list_names(path)
        layers = [value] if names == [name_leaf(path)] else value
        for name, layer in zip(names, layers, strict=True):
            yield name, restore(layer)


def make_key(path: Sequence[Any]) -> tuple[str, ...]:
    """Return a path as strings: JAX and Flax spell its parts in different types."""
    return tuple(map(str, path))
