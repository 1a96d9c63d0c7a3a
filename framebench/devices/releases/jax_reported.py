"""What users reported about XLA's compiler for GPUs, planned for a device that is not here, at the size of the report:
`python -m framebench.devices.releases.jax_reported DEVICE`, in an environment with the compiler.

The programs are ours. Prints one JSON object last: by report and variant the bytes that are planned, or why there are none.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.errors import JaxRuntimeError
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from framebench.devices.catalog import Device, find
from framebench.devices.releases.jax_older import help_jax
from framebench.devices.xla import jax_target

BLOCKS, STEPS, STATE = 10, 1000, (30000, 100)  # jax 27748
LAYERS, TOKENS, EXPERTS, WIDTH, HIDDEN = 3, 32768, 64, 1024, 512  # marin 5394; tokens of one device
Lowered = Any
Variants = dict[str, Callable[[], Lowered]]


def on(devices: list[jax.Device], shape: tuple[int, ...], dtype: Any, split: bool = False) -> jax.ShapeDtypeStruct:
    """An array over these devices: whole on each, or its first axis split."""
    sharding = NamedSharding(Mesh(np.array(devices), ("devices",)), PartitionSpec("devices") if split else PartitionSpec())
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


@jax.checkpoint
def step(carry: Array, scale: Array) -> tuple[Array, None]:
    sine = jnp.sin(scale * carry)
    return carry + sine + jnp.cos(scale * sine), None


def block(carry: Array, scale: Array) -> Array:
    return lax.scan(lambda c, _: step(c, scale), carry, None, STEPS)[0]


def blocks(scale: Array, x: Array, block: Callable[[Array, Array], Array] = block) -> Array:
    for _ in range(BLOCKS):
        x = block(x, scale)
    return x.sum()


def blocks_in_a_loop(scale: Array, x: Array) -> Array:
    recomputed = jax.checkpoint(block)
    return lax.scan(lambda c, _: (recomputed(c, scale), None), x, None, BLOCKS)[0].sum()


def scans(device: Device) -> Variants:
    """jax 27748: a long scan in blocks, each recomputed in the backward pass."""
    here = jax_target.devices(device, 1)
    arguments = on(here, (), jnp.float32), on(here, STATE, jnp.float32)
    losses: dict[str, Callable[..., Array]] = {
        "nothing recomputed": blocks,
        "blocks recomputed, in a Python loop": partial(blocks, block=jax.checkpoint(block)),
        "blocks recomputed, in lax.scan": blocks_in_a_loop,
    }
    return {name: partial(jax.jit(jax.value_and_grad(loss)).lower, *arguments) for name, loss in losses.items()}


def network(recomputed: bool) -> Callable[..., Array]:
    """Layers of experts, each of which takes the tokens of its group."""

    def layer(x: Array, first: Array, second: Array, groups: Array) -> Array:
        return x + lax.ragged_dot(jax.nn.silu(lax.ragged_dot(x, first, groups)), second, groups)

    one = jax.checkpoint(layer) if recomputed else layer

    def total(first: Array, second: Array, x: Array, groups: Array) -> Array:
        for i in range(LAYERS):
            x = one(x, first[i], second[i], groups[0])
        return x.astype(jnp.float32).sum()[None]

    return total


def experts(device: Device) -> Variants:
    """marin 5394: the gradient of layers of experts, on one device and on each of two."""
    return {
        f"{count} device{'s' * (count > 1)}, {'layers recomputed' if recomputed else 'nothing recomputed'}": partial(
            _experts, jax_target.devices(device, count), recomputed
        )
        for count in (1, 2) for recomputed in (False, True)
    }  # fmt: skip


def _experts(devices: list[jax.Device], recomputed: bool) -> Lowered:
    count, mesh, whole, split = len(devices), Mesh(np.array(devices), ("devices",)), PartitionSpec(), PartitionSpec("devices")
    specs: Any = (whole, whole, split, split)
    each = network(recomputed)
    if count > 1:
        each = jax.shard_map(each, mesh=mesh, in_specs=specs, out_specs=split)
    arguments = (
        on(devices, (LAYERS, EXPERTS, WIDTH, HIDDEN), jnp.bfloat16),
        on(devices, (LAYERS, EXPERTS, HIDDEN, WIDTH), jnp.bfloat16),
        on(devices, (count * TOKENS, WIDTH), jnp.bfloat16, split=True), on(devices, (count, EXPERTS), jnp.int32, split=True),
    )  # fmt: skip
    return jax.jit(jax.grad(lambda *a: each(*a).sum(), argnums=(0, 1, 2))).lower(*arguments)


REPORTS: dict[str, Callable[[Device], Variants]] = {"jax 27748": scans, "marin 5394": experts}


def planned(lower: Callable[[], Lowered]) -> dict[str, Any]:
    try:
        m = lower().compile().memory_analysis()
    except JaxRuntimeError as error:
        return {"reason": str(error).splitlines()[0][:300]}
    return {
        "arguments": m.argument_size_in_bytes, "outputs": m.output_size_in_bytes, "temporaries": m.temp_size_in_bytes,
        "aliased": m.alias_size_in_bytes,
    }  # fmt: skip


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    flags, device = help_jax(), find(sys.argv[1])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints
    told = {report: {name: planned(lower) for name, lower in of(device).items()} for report, of in REPORTS.items()}
    print(json.dumps({"programs": told, "flags": flags}), file=out, flush=True)
    os._exit(0)
