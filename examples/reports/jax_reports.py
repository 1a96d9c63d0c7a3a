"""What users reported about JAX, small enough for a CPU: `python jax_reports.py NUMBER`.

The last line that it prints has the numbers that decide, which the function of `REPORTS` returns.

The programs are ours; the issues are https://github.com/jax-ml/jax/issues/NUMBER, and what they
report stands in `framebench/claims/sources/r.toml`.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.sparse.linalg import cg

from framebench.adapters.jax.program import count_plan_bytes
from framebench.instruments.host import read_status

LAYERS, WIDTH = 10, 512
BLOCKS, STEPS, STATE = 10, 100, (300, 100)
CALLS, WARM_UP = 300, 50
CALLS_CLEARED = 100  # calls after each of which caches are cleared: each compiles again
Numbers = dict[str, float]


def plan_gradient(loss: Callable[..., Array], *arguments: Any) -> float:
    """Return the bytes that the compiler plans for the loss and its gradient."""
    return float(count_plan_bytes(jax.jit(jax.value_and_grad(loss)).lower(*arguments).compile()))


def apply_layer(x: Array, key: Array) -> Array:
    """Return a layer's output; its random weights are made where they are used."""
    return jax.nn.relu(jax.random.normal(key, (WIDTH, WIDTH)) @ x + 1)


def run_layers(x: Array, layer: Callable[[Array, Array], Array] = apply_layer) -> Array:
    """Return the sum of a network's output."""
    for key in jax.random.split(jax.random.key(0), LAYERS):
        x = layer(x, key)
    return x.sum()


def scan_layers(x: Array) -> Array:
    """Return the same by lax.scan over the layers, each recomputed."""
    recomputed = jax.checkpoint(apply_layer)
    keys = jax.random.split(jax.random.key(0), LAYERS)
    return lax.scan(lambda x, key: (recomputed(x, key), None), x, keys)[0].sum()


def checkpoint_network() -> Numbers:
    """Return the planned bytes of a network that is recomputed in several ways."""
    x = jnp.ones((WIDTH, WIDTH))
    return {
        "plain": plan_gradient(run_layers, x),
        "whole": plan_gradient(jax.checkpoint(run_layers), x),
        "layers": plan_gradient(lambda x: run_layers(x, jax.checkpoint(apply_layer)), x),
        "in_a_loop": plan_gradient(scan_layers, x),
    }


@jax.checkpoint
def step(carry: Array, scale: Array) -> Array:
    """Return the next state of a recurrence; recomputed in the backward pass."""
    sine = jnp.sin(scale * carry)
    return carry + sine + jnp.cos(scale * sine)


def run_block(carry: Array, scale: Array) -> Array:
    """Return the state after a scan of steps."""
    return lax.scan(lambda carry, _: (step(carry, scale), None), carry, None, STEPS)[0]


def run_blocks(x: Array, scale: Array, block: Callable[[Array, Array], Array] = run_block) -> Array:
    """Return the sum of the state after all blocks, in a Python loop."""
    for _ in range(BLOCKS):
        x = block(x, scale)
    return x.sum()


def scan_blocks(x: Array, scale: Array) -> Array:
    """Return the same by an outer scan, whose body is recomputed."""
    recomputed = jax.checkpoint(run_block)
    return lax.scan(lambda carry, _: (recomputed(carry, scale), None), x, None, BLOCKS)[0].sum()


def checkpoint_scans() -> Numbers:
    """Return the planned bytes of scans that are recomputed in several ways."""
    arguments = jnp.ones(STATE), jnp.float32(0.8)
    return {
        "plain": plan_gradient(run_blocks, *arguments),
        "blocks": plan_gradient(
            lambda x, scale: run_blocks(x, scale, jax.checkpoint(run_block)), *arguments
        ),
        "in_a_loop": plan_gradient(scan_blocks, *arguments),
    }


def measure_growth(call: Callable[[int], Any], calls: int = CALLS) -> float:
    """Return the bytes of resident memory for each call, after some that warm up."""
    for number in range(WARM_UP):
        call(number)
    before = read_status("VmRSS")
    for number in range(WARM_UP, WARM_UP + calls):
        call(number)
    return (read_status("VmRSS") - before) / calls


def compile_every_shape() -> Numbers:
    """Return the growth for each call with the same shape, and with a new one."""
    matmul = jax.jit(lambda x, y: jnp.mean(x.T @ y))

    def call(size: int) -> None:
        x = np.ones((64, size), np.float32)
        matmul(x, x).block_until_ready()

    return {
        "same": measure_growth(lambda number: call(8)),
        "new": measure_growth(lambda number: call(number + 9)),
    }


def clear_caches() -> Numbers:
    """Return the same growth where caches are cleared after each call."""
    total = jax.jit(lambda x: jnp.sum(jnp.sin(x)))

    def call(size: int) -> None:
        total(np.ones(size, np.float32)).block_until_ready()
        jax.clear_caches()
        gc.collect()

    return {
        "cleared_same": measure_growth(lambda number: call(1), CALLS_CLEARED),
        "cleared": measure_growth(lambda number: call(number + 2), CALLS_CLEARED),
    }


def solve_by_conjugate_gradients() -> Numbers:
    """Return the growth for each solution of a linear system, compiled and not."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((64, 64), np.float32)
    matrix, target = jnp.asarray(a @ a.T + 64 * np.eye(64, dtype=np.float32)), jnp.ones(64)

    def solve(b: Array) -> Array:
        return cg(matrix, b, maxiter=20)[0]

    compiled = jax.jit(solve)
    return {
        "plain": measure_growth(lambda number: solve(target * number).block_until_ready()),
        "compiled": measure_growth(lambda number: compiled(target * number).block_until_ready()),
    }


REPORTS: dict[str, Callable[[], Numbers]] = {
    "2072": compile_every_shape,
    "9714": solve_by_conjugate_gradients,
    "19429": clear_caches,
    "19822": checkpoint_network,
    "27748": checkpoint_scans,
}

if __name__ == "__main__":
    print(json.dumps(REPORTS[sys.argv[1]]()))
