"""What users reported about JAX, small enough for a CPU: each function returns the numbers that decide, by the issue's number.

The programs are ours; the issues are https://github.com/jax-ml/jax/issues/NUMBER, and what they report
stands in `framebench/claims/source_r.py`.
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
CLEARED = 100  # calls after each of which caches are cleared: each compiles anew
Numbers = dict[str, float]


def planned(loss: Callable[..., Array], *arguments: Any) -> float:
    """Bytes that the compiler plans for the loss and its gradient."""
    return float(plan_bytes(jax.jit(jax.value_and_grad(loss)).lower(*arguments).compile()))


def layer(x: Array, key: Array) -> Array:
    """Its random weights are made where they are used."""
    return jax.nn.relu(jax.random.normal(key, (WIDTH, WIDTH)) @ x + 1)


def network(x: Array, layer: Callable[[Array, Array], Array] = layer) -> Array:
    for key in jax.random.split(jax.random.key(0), LAYERS):
        x = layer(x, key)
    return x.sum()


def in_a_loop(x: Array) -> Array:
    """The same network by lax.scan over its layers, each recomputed."""
    recomputed = jax.checkpoint(layer)
    return lax.scan(lambda x, key: (recomputed(x, key), None), x, jax.random.split(jax.random.key(0), LAYERS))[0].sum()


def checkpointed_network() -> Numbers:
    x = jnp.ones((WIDTH, WIDTH))
    return {
        "plain": planned(network, x),
        "whole": planned(jax.checkpoint(network), x),
        "layers": planned(lambda x: network(x, jax.checkpoint(layer)), x),
        "in_a_loop": planned(in_a_loop, x),
    }


@jax.checkpoint
def step(carry: Array, scale: Array) -> tuple[Array, None]:
    sine = jnp.sin(scale * carry)
    return carry + sine + jnp.cos(scale * sine), None


def block(carry: Array, scale: Array) -> Array:
    """Steps of a recurrence, each recomputed."""
    return lax.scan(lambda c, _: step(c, scale), carry, None, STEPS)[0]


def blocks(x: Array, scale: Array, block: Callable[[Array, Array], Array] = block) -> Array:
    for _ in range(BLOCKS):
        x = block(x, scale)
    return x.sum()


def blocks_in_a_loop(x: Array, scale: Array) -> Array:
    recomputed = jax.checkpoint(block)
    return lax.scan(lambda c, _: (recomputed(c, scale), None), x, None, BLOCKS)[0].sum()


def checkpointed_scans() -> Numbers:
    arguments = jnp.ones(STATE), jnp.float32(0.8)
    return {
        "plain": planned(blocks, *arguments),
        "blocks": planned(lambda x, s: blocks(x, s, jax.checkpoint(block)), *arguments),
        "in_a_loop": planned(blocks_in_a_loop, *arguments),
    }


def grown(call: Callable[[int], Any], after: Callable[[], Any] = lambda: None, calls: int = SHAPES) -> float:
    """Bytes of resident memory for each call, after some that warm up."""
    for i in range(WARM):
        call(i)
        after()
    before = status_bytes("VmRSS")
    for i in range(WARM, WARM + calls):
        call(i)
        after()
    return (status_bytes("VmRSS") - before) / calls


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

    def of(size: int) -> Any:
        return total(np.ones(size, np.float32)).block_until_ready()

    same, new = grown(lambda i: of(1), clear, CLEARED), grown(lambda i: of(i + 2), clear, CLEARED)
    return {"cleared_same": same, "cleared": new}


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
