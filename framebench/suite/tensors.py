"""Tensors as verification sees them: the norm, and the projection on a few fixed random vectors.

A norm alone misses a sign or a permutation; of an error of any shape, the projections keep the size: for independent entries of
variance 1 the mean square of (r . error) is the square of the error's norm. NumPy only.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

from framebench.models.spec import SEED

PROJECTIONS = 3
CHUNK, PLACES = 1 << 20, 1 << 18

Summary = tuple[float, ...]  # norm, projections
Summaries = dict[str, dict[str, Summary]]  # kind -> tensor -> summary


@cache
def _drawn() -> np.ndarray:
    """Normal numbers, drawn once: (PROJECTIONS, CHUNK + PLACES). Random vectors are windows on them."""
    return np.random.default_rng([SEED, 3]).standard_normal((PROJECTIONS, CHUNK + PLACES))


def summary(name: str, array: np.ndarray) -> Summary:
    """Norm and projections, in float64. The window on the random numbers begins where the tensor's name and the chunk say."""
    flat = real(array).reshape(-1)
    square, projections = 0.0, np.zeros(PROJECTIONS)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK].astype(np.float64)
        place = zlib.crc32(f"{name} {start}".encode()) % PLACES
        square += float(part @ part)
        projections += _drawn()[:, place : place + part.size] @ part
    return float(square**0.5), *map(float, projections)


def real(array: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs of real ones."""
    array = np.asarray(array)
    return np.ascontiguousarray(array).view(array.real.dtype) if np.iscomplexobj(array) else array


def summaries(tensors: Iterable[tuple[str, np.ndarray]]) -> dict[str, Summary]:
    return {name: summary(name, array) for name, array in tensors}


def outputs(logits: np.ndarray) -> dict[str, Summary]:
    """Of logits (batch, ...): as they are, and about their mean over the batch, where what all samples share hides nothing."""
    wide = np.asarray(logits, np.float64)
    return summaries((("logits", wide), ("logits about their mean", wide - wide.mean(0))))


def distance(one: Summary, other: Summary) -> float:
    """Return how far two tensors are apart: by their norms, or by the root mean square of their projections."""
    apart = np.abs(np.subtract(one, other))
    return float(max(apart[0], np.sqrt(np.mean(apart[1:] ** 2))))


def errors(observed: Summary, wanted: Summary) -> tuple[float, float]:
    """Of the norm and of the projections (root mean square), relative to the norm that is wanted.

    What should be zero, as the change of a frozen weight, must be zero: else the error is infinite.
    """
    off = np.abs(np.subtract(observed, wanted))
    if wanted[0] == 0:
        return (0.0, 0.0) if not off.any() else (float("inf"), float("inf"))
    return float(off[0] / wanted[0]), float(np.sqrt(np.mean(off[1:] ** 2)) / wanted[0])


def max_error(observed: Summary, wanted: Summary) -> float:
    """Return the larger of the two errors, which is NaN if one of them is."""
    return float(np.max(errors(observed, wanted)))


def family(name: str) -> str:
    """Tensors that differ in the numbers in their names alone are one family: `blocks.3.qkv.bias` is of `blocks.*.qkv.bias`."""
    return re.sub(r"\d+(?=\.)", "*", name)


def largest(errors_by_name: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The largest errors of each family."""
    most: dict[str, tuple[float, float]] = {}
    for name, (norm, projections) in errors_by_name.items():
        before = most.get(family(name), (0.0, 0.0))
        most[family(name)] = max(before[0], norm), max(before[1], projections)
    return most
