"""Canonical weights (PyTorch's names and layouts) onto the state of a Flax NNX model, by attribute path.

Only names and layouts differ: Flax is channels last, keeps a convolution's kernel as (*spatial, in, out), a linear one as
(in, out), and does not flip the kernel of a transposed convolution as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from flax import nnx

LEAVES = {
    "kernel": "weight",
    "scale": "weight",
    "embedding": "weight",
    "bias": "bias",
    "mean": "running_mean",
    "var": "running_var",
}  # Flax -> canonical


class WeightsMismatch(ValueError):
    """The canonical weights and the model do not name the same parameters; the message lists those that differ."""


def linear(w: np.ndarray) -> np.ndarray:  # (out, in) -> (in, out)
    return w.T


def conv(w: np.ndarray) -> np.ndarray:  # (out, in, *spatial) -> (*spatial, in, out)
    return np.moveaxis(w, (0, 1), (-1, -2))


def conv_transpose(w: np.ndarray) -> np.ndarray:  # (in, out, *spatial) -> (*flipped spatial, in, out)
    return np.flip(np.moveaxis(w, (0, 1), (-2, -1)), range(w.ndim - 2))  # type: ignore[call-overload]  # NumPy's types know no range


def from_conv(w: np.ndarray) -> np.ndarray:
    return np.moveaxis(w, (-1, -2), (0, 1))


def from_conv_transpose(w: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.flip(w, tuple(range(w.ndim - 2))), (-2, -1), (0, 1))


LAYOUTS: dict[type, Callable[[np.ndarray], np.ndarray]] = {
    nnx.Linear: linear,
    nnx.Conv: conv,
    nnx.ConvTranspose: conv_transpose,
}

BACK: dict[Any, Callable[[np.ndarray], np.ndarray]] = {
    np.asarray: np.asarray,
    linear: linear,
    conv: from_conv,
    conv_transpose: from_conv_transpose,
}  # Flax's -> canonical


def layout_of(module: nnx.Module, leaf: str) -> Callable[[np.ndarray], np.ndarray]:
    """What turns the canonical array of this leaf into Flax's; subclasses keep their parent's layout."""
    layouts = [f for kind, f in LAYOUTS.items() if isinstance(module, kind)]
    return layouts[0] if layouts and leaf == "kernel" else np.asarray


def canonical(path: Sequence[Any]) -> str:
    """The canonical name of the leaf at `path`; for stacked layers, the name without the layer's number."""
    return ".".join((*(str(p) for p in path[:-1]), LEAVES.get(path[-1], path[-1])))


def sources(path: tuple[Any, ...], weights: Collection[str]) -> list[str]:
    """Canonical names behind the leaf at `path`: one, or one per layer where the first attribute holds stacked layers."""
    if (name := canonical(path)) in weights:
        return [name]
    head, rest = name.split(".", 1)
    stacked = [f"{head}.{i}.{rest}" for i in range(len(weights))]
    return [name for name in stacked if name in weights]


def leaves(model: nnx.Module) -> Iterator[tuple[nnx.Module, tuple[Any, ...], nnx.Variable]]:
    """(layer, path, variable) of every array of the model that is no state of random numbers."""
    for path, module in nnx.iter_modules(model):
        for name, value in vars(module).items():
            for inner, variable in _variables(value):
                yield module, (*path, name, *inner), variable


def _variables(value: Any) -> Iterator[tuple[tuple[Any, ...], nnx.Variable]]:
    """Linen's layers are dictionaries where NNX has modules."""
    if isinstance(value, nnx.Variable) and not isinstance(value, nnx.RngState):
        yield (), value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from (((name, *path), variable) for path, variable in _variables(inner))


def load(model: nnx.Module, weights: Mapping[str, np.ndarray], dtype: Any) -> None:
    """Fill `model`, which may be abstract (`nnx.eval_shape`), with NumPy arrays of `dtype`. Raises WeightsMismatch."""
    unused, missing = set(weights), []
    for module, path, variable in leaves(model):
        names = sources(path, weights)
        unused -= set(names)
        arrays = [layout_of(module, path[-1])(weights[name]) for name in names]
        value = arrays[0] if names == [canonical(path)] else np.array(arrays)  # the layers of a stack
        if value.shape == variable.shape:
            variable.set_value(np.ascontiguousarray(value, dtype))
        else:
            missing.append(f"{'.'.join(map(str, path))} {variable.shape}")
    if missing or unused:
        raise WeightsMismatch(f"without canonical weights: {missing}; canonical weights left over: {sorted(unused)}")


class Names:
    """The way back: canonical names and layouts of a model's leaves, in nested dictionaries with the model's paths."""

    def __init__(self, model: nnx.Module, names: Collection[str]) -> None:
        self.names = names
        self.back = {key(path): BACK[layout_of(module, path[-1])] for module, path, _ in leaves(model)}

    def of(self, path: Sequence[Any]) -> list[str]:
        """Of the leaf at `path`: several where it holds the layers of a stack."""
        return sources(tuple(path), self.names)

    def turned(self, path: Sequence[Any]) -> bool:
        """Whether Flax has the canonical matrix's rows as columns."""
        return self.back[key(path)] is linear

    def unload(self, path: Sequence[Any], value: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """The tensors of the leaf at `path`."""
        names = self.of(path)
        layers = [value] if names == [canonical(path)] else value
        for name, layer in zip(names, layers, strict=True):
            yield name, self.back[key(path)](layer)


def key(path: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(str, path))
