"""What a lower precision may put a model off by, imitated in float32. In Flax every layer rounds, not products alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax

BETWEEN = 8  # terms of a sum that rounds as much as what is computed between two layers


def imitate(layers: Iterable[Any], roundoff: float) -> None:
    """These layers give what they did, off by what a precision of this roundoff may explain."""
    off = Off(roundoff)
    for layer in layers:
        kind: Any = type(layer)
        layer.__class__, layer.off = _inexact(kind), off


class Off:
    """Rounds as layers do that compute in a lower precision, of this roundoff: each number by another random share of it. A sum
    rounds after each of its terms, whose partial sums grow as a random walk does; a product is added up in float32."""

    def __init__(self, roundoff: float) -> None:
        self.roundoff, self.calls, self.places = roundoff, count(), 1

    def __call__(self, tree: Any, terms: float = 1) -> Any:
        return jax.tree.map(lambda a: self.moved(a, terms) if floating(a) else a, tree)

    def moved(self, array: Array, terms: float) -> Array:
        shares = jax.random.uniform(self.key(array), array.shape, array.dtype, -1, 1)
        return array * (1 + self.of_sum(terms) * shares)

    def key(self, array: Array) -> Array:
        """Of random numbers that are others for other values, though the program is the same."""
        return jax.random.fold_in(
            jax.random.key(next(self.calls), impl="rbg"), lax.bitcast_convert_type(array.sum(), jnp.uint32)
        )

    def of_sum(self, terms: float) -> float:
        return self.roundoff * max(1.0, math.sqrt(terms / 2))

    def between(self, tree: Any) -> Any:
        """What goes into a layer: rounded more than once by the functions between (a gelu is ten operations), and if it has
        fewer places than what the last layer gave, pooled."""
        return self(tree, max(BETWEEN, self.places / (places(tree) or self.places)))

    def added_up(self, weight: Array, terms: Callable[[], int]) -> Array:
        """The same, whose gradient is off as a sum over so many places: each number otherwise; and all by what a sum of equal
        terms may lose, each of which is rounded away the same way, at most everything."""

        def back(_: None, gradient: Array) -> tuple[Array]:
            each = self.of_sum(terms()) * jax.random.normal(self.key(gradient), gradient.shape, gradient.dtype)
            alike = min(1.0, self.roundoff * terms() / 2)
            return (gradient * (1 + alike) + each * jnp.sqrt(jnp.mean(gradient**2)),)

        same = jax.custom_vjp(lambda array: array)
        same.defvjp(lambda array: (array, None), back)
        same_weight: Array = same(weight)
        return same_weight


def places(tree: Any) -> int:
    """Samples times positions of the largest array; 0 without one that has features."""
    return max((a.size // a.shape[-1] for a in jax.tree.leaves(tree) if floating(a) and a.ndim), default=0)


@cache
def _inexact(layer: type) -> type:
    """The same class of layers, which rounds what goes in and comes out, and the gradients of biases and of norms' factors."""

    def call(self: Any, *args: Any, **named: Any) -> Any:
        seen: list[int] = []
        added_up = [(v, v.get_value()) for name in ("bias", "scale") if isinstance(v := getattr(self, name, None), nnx.Param)]
        for variable, value in added_up:
            variable.set_value(self.off.added_up(value, lambda: seen[0]))
        output = layer.__call__(self, *self.off.between(args), **self.off(named))
        for variable, value in added_up:
            variable.set_value(value)
        seen.append(places(output))
        self.off.places = seen[0]
        return self.off(output)

    return type(layer.__name__, (layer,), {"__call__": call})


def floating(array: Any) -> bool:
    return isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jnp.floating)
