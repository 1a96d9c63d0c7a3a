"""What users reported about JAX, small enough for a CPU: each function returns the numbers that decide, by the issue's number.

The programs are ours; the issues are https://github.com/jax-ml/jax/issues/NUMBER, and what they report
stands in `analysis/claims/source_r.py`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.sparse.linalg import cg

from framebench.adapters.jax.program import plan_bytes
from framebench.instruments.host import status_bytes

LAYERS, WIDTH = 10, 512
BLOCKS, STEPS, STATE = 10, 100, (300, 100)
SHAPES, WARM = 300, 50
Numbers = dict[str, float]


def planned(loss: Callable[..., Array], *arguments: Any) -> float:
    """Bytes that the compiler plans for the loss and its gradient."""
    return float(plan_bytes(jax.jit(jax.value_and_grad(loss)).lower(*arguments).compile()))


def network(x: Array, each: Callable[..., Any]) -> Array:
    """Layers whose random weights are made where they are used."""

    def layer(x: Array, key: Array) -> Array:
        return jax.nn.relu(jax.random.normal(key, (WIDTH, WIDTH)) @ x + 1)

    for key in jax.random.split(jax.random.key(0), LAYERS):
        x = each(layer)(x, key)
    return x.sum()


def checkpointed_network() -> Numbers:
    x = jnp.ones((WIDTH, WIDTH))
    whole = jax.checkpoint(lambda x: network(x, lambda f: f))
    return {
        "plain": planned(lambda x: network(x, lambda f: f), x),
        "whole": planned(whole, x),
        "layers": planned(lambda x: network(x, jax.checkpoint), x),
    }


def blocks_of_steps(x: Array, scale: Array, around: Callable[..., Any]) -> Array:
    """A long recurrence in blocks, each a scan over recomputed steps."""

    @jax.checkpoint
    def step(carry: Array, _: None) -> tuple[Array, None]:
        sine = jnp.sin(scale * carry)
        return carry + sine + jnp.cos(scale * sine), None

    for _ in range(BLOCKS):
        x = around(lambda c: lax.scan(step, c, None, STEPS)[0])(x)
    return x.sum()


def checkpointed_scans() -> Numbers:
    arguments = jnp.ones(STATE), jnp.float32(0.8)
    return {
        "plain": planned(lambda x, s: blocks_of_steps(x, s, lambda f: f), *arguments),
        "blocks": planned(lambda x, s: blocks_of_steps(x, s, jax.checkpoint), *arguments),
    }


def grown(call: Callable[[int], Any], after: Callable[[], Any] = lambda: None) -> float:
    """Bytes of resident memory for each call, after some that warm up."""
    for i in range(WARM):
        call(i)
        after()
    before = status_bytes("VmRSS")
    for i in range(WARM, WARM + SHAPES):
        call(i)
        after()
    return (status_bytes("VmRSS") - before) / SHAPES


def compiled_for_every_shape() -> Numbers:
    product = jax.jit(lambda x, y: jnp.mean(x.T @ y))

    def of(size: int) -> Any:
        x = np.ones((64, size), np.float32)
        return product(x, x).block_until_ready()

    return {"same": grown(lambda i: of(8)), "new": grown(lambda i: of(i + 9))}


def cleared_caches() -> Numbers:
    total = jax.jit(lambda x: jnp.sum(jnp.sin(x)))

    def clear() -> None:
        jax.clear_caches()
        gc.collect()

    return {"cleared": grown(lambda i: total(np.ones(i + 1, np.float32)).block_until_ready(), clear)}


def conjugate_gradients() -> Numbers:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((64, 64), np.float32)
    matrix, target = jnp.asarray(a @ a.T + 64 * np.eye(64, dtype=np.float32)), jnp.ones(64)
    compiled = jax.jit(lambda b: cg(matrix, b, maxiter=20)[0])
    return {
        "plain": grown(lambda i: cg(matrix, target * i, maxiter=20)[0].block_until_ready()),
        "compiled": grown(lambda i: compiled(target * i).block_until_ready()),
    }


REPORTS: dict[str, Callable[[], Numbers]] = {
    "2072": compiled_for_every_shape,
    "9714": conjugate_gradients,
    "19429": cleared_caches,
    "19822": checkpointed_network,
    "27748": checkpointed_scans,
}
