"""Summarize tensors for verification: the norm, and projections on a few fixed random vectors.

A norm alone misses a sign or a permutation. Projections keep the size of an error of any shape:
for independent entries of variance 1 the mean square of (r . error) is the square of the error's
norm. NumPy only.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from functools import cache

import numpy as np

from framebench.models.spec import SEED

PROJECTIONS = 3
CHUNK = 1 << 20  # numbers that are projected at once
PLACES = 1 << 18  # a window on the random numbers begins before this place

Summary = tuple[float, ...]  # norm, projections
NORM = 0  # the place of the norm in a summary
Summaries = dict[str, dict[str, Summary]]  # kind -> tensor -> summary


@cache
def draw_vectors() -> np.ndarray:
    """Draw random numbers (PROJECTIONS, CHUNK + PLACES). Windows on them are the random vectors."""
    return np.random.default_rng([SEED, 3]).standard_normal((PROJECTIONS, CHUNK + PLACES))


def summarize(name: str, array: np.ndarray) -> Summary:
    """Return norm and projections, in float64.

    Chunks of the tensor are projected on windows of fixed random numbers. Where a window begins
    follows from the tensor's name and the chunk.
    """
    flat = view_as_real(array).reshape(-1)
    square = 0.0
    projections = np.zeros(PROJECTIONS)
    for start in range(0, flat.size, CHUNK):
        chunk = flat[start : start + CHUNK].astype(np.float64)
        square += float(chunk @ chunk)
        place = zlib.crc32(f"{name} {start}".encode()) % PLACES
        window = draw_vectors()[:, place : place + chunk.size]
        projections += window @ chunk
    norm = float(square**0.5)
    return norm, *map(float, projections)


def view_as_real(array: np.ndarray) -> np.ndarray:
    """Return complex numbers as pairs of real ones, and real numbers unchanged."""
    array = np.asarray(array)
    if not np.iscomplexobj(array):
        return array
    return np.ascontiguousarray(array).view(array.real.dtype)


def summarize_all(tensors: Iterable[tuple[str, np.ndarray]]) -> dict[str, Summary]:
    """Return the summary of each tensor by its name."""
    return {name: summarize(name, array) for name, array in tensors}


def summarize_logits(logits: np.ndarray) -> dict[str, Summary]:
    """Return the summaries of logits (batch, ...), and of the logits minus their mean.

    The mean is over the batch. Without it, what all samples share cannot hide a difference.
    """
    wide = np.asarray(logits, np.float64)
    return summarize_all([("logits", wide), ("logits about their mean", wide - wide.mean(0))])


def measure_distance(first: Summary, second: Summary) -> float:
    """Return the distance of two tensors.

    It is the difference of their norms, or the root mean square of the differences of their
    projections if that is more.
    """
    of_norms, *of_projections = np.subtract(first, second)
    return float(max(abs(of_norms), np.sqrt(np.mean(np.square(of_projections)))))


def measure_errors(observed: Summary, reference: Summary) -> tuple[float, float]:
    """Return the errors of the norm and of the projections, relative to the reference's norm.

    The error of the projections is their root mean square. A tensor that is zero in the reference,
    such as the change of a frozen weight, must be zero; otherwise both errors are infinite.
    """
    norm = reference[NORM]
    differences = np.subtract(observed, reference)
    if norm == 0:
        return (float("inf"), float("inf")) if differences.any() else (0.0, 0.0)
    of_norms, *of_projections = differences
    projection_error = np.sqrt(np.mean(np.square(of_projections)))
    return float(abs(of_norms) / norm), float(projection_error / norm)


def measure_max_error(observed: Summary, reference: Summary) -> float:
    """Return the larger of the two errors, which is NaN if one of them is."""
    return float(np.max(measure_errors(observed, reference)))


def name_family(name: str) -> str:
    """Return the name that tensors of the same kind share: `blocks.*.qkv.bias`.

    The tensors' names differ only in their numbers, as `blocks.3.qkv.bias` and `blocks.4.qkv.bias`.
    """
    return re.sub(r"\d+(?=\.)", "*", name)
