"""Plan what users reported about XLA's compiler for GPUs, at the size of the report.

    python -m framebench.devices.releases.jax_reported DEVICE

It runs in an environment with the compiler. The programs are ours. The last line that is printed is
a JSON object: by report and variant the bytes that are planned, or why nothing is planned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.errors import JaxRuntimeError
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from framebench.adapters.jax.program import read_plan_parts
from framebench.devices.catalog import Device, find
from framebench.devices.xla import jax_target
from framebench.devices.xla.jax_output import print_answer

BLOCKS, STEPS, STATE = 10, 1000, (30000, 100)  # jax 27748
LAYERS, TOKENS, EXPERTS, WIDTH, HIDDEN = 3, 32768, 64, 1024, 512  # marin 5394; tokens of one device
WHOLE, SPLIT = PartitionSpec(), PartitionSpec("devices")
Lowered = Any  # the result of `jax.jit(...).lower`
ReportedVariant = tuple[str, Callable[[], Lowered]]


def make_shape(
    devices: list[jax.Device], shape: tuple[int, ...], dtype: Any, spec: PartitionSpec
) -> jax.ShapeDtypeStruct:
    """Return an array over these devices: whole on each, or its first axis split."""
    sharding = NamedSharding(Mesh(np.array(devices), ("devices",)), spec)
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


@jax.checkpoint
def step(carry: Array, scale: Array) -> tuple[Array, None]:
    """Return the next state of a scan."""
    sine = jnp.sin(scale * carry)
    return carry + sine + jnp.cos(scale * sine), None


def block(carry: Array, scale: Array) -> Array:
    """Return the state after a block of steps."""
    return lax.scan(lambda c, _: step(c, scale), carry, None, STEPS)[0]


def sum_blocks(block: Callable[[Array, Array], Array], scale: Array, x: Array) -> Array:
    """Return the sum of the last state, after blocks in a Python loop."""
    for _ in range(BLOCKS):
        x = block(x, scale)
    return x.sum()


def sum_scanned_blocks(block: Callable[[Array, Array], Array], scale: Array, x: Array) -> Array:
    """Return the sum that a block leads to when lax.scan repeats it."""
    return lax.scan(lambda c, _: (block(c, scale), None), x, None, BLOCKS)[0].sum()


def list_scans(device: Device) -> Iterator[ReportedVariant]:
    """Yield the variants of JAX issue 27748: a long scan in blocks that are recomputed or not."""
    here = jax_target.make_devices(device, 1)
    scale = make_shape(here, (), jnp.float32, WHOLE)
    state = make_shape(here, STATE, jnp.float32, WHOLE)
    recomputed = jax.checkpoint(block)
    losses = {
        "nothing recomputed": partial(sum_blocks, block),
        "blocks recomputed, in a Python loop": partial(sum_blocks, recomputed),
        "blocks recomputed, in lax.scan": partial(sum_scanned_blocks, recomputed),
    }
    for name, loss in losses.items():
        yield name, partial(jax.jit(jax.value_and_grad(loss)).lower, scale, state)


def layer(x: Array, first: Array, second: Array, groups: Array) -> Array:
    """Return the output of a layer of experts, each of which takes the tokens of its group."""
    return x + lax.ragged_dot(jax.nn.silu(lax.ragged_dot(x, first, groups)), second, groups)


def list_experts(device: Device) -> Iterator[ReportedVariant]:
    """Yield variants of marin 5394: the gradient of layers of experts, on one and two devices."""
    for count in (1, 2):
        devices = jax_target.make_devices(device, count)
        place = "1 device" if count == 1 else f"{count} devices"
        yield f"{place}, nothing recomputed", partial(lower_network, devices, layer)
        yield f"{place}, layers recomputed", partial(lower_network, devices, jax.checkpoint(layer))


def lower_network(devices: list[jax.Device], layer: Callable[..., Array]) -> Lowered:
    """Return the lowered gradient of layers of experts."""
    count = len(devices)

    def sum_outputs(first: Array, second: Array, x: Array, groups: Array) -> Array:
        for i in range(LAYERS):
            x = layer(x, first[i], second[i], groups[0])
        return x.astype(jnp.float32).sum()[None]

    sums: Callable[..., Array] = sum_outputs
    if count > 1:
        mesh = Mesh(np.array(devices), ("devices",))
        specs: Any = (WHOLE, WHOLE, SPLIT, SPLIT)
        sums = jax.shard_map(sum_outputs, mesh=mesh, in_specs=specs, out_specs=SPLIT)

    def loss(*arguments: Array) -> Array:
        return sums(*arguments).sum()

    return jax.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(
        make_shape(devices, (LAYERS, EXPERTS, WIDTH, HIDDEN), jnp.bfloat16, WHOLE),
        make_shape(devices, (LAYERS, EXPERTS, HIDDEN, WIDTH), jnp.bfloat16, WHOLE),
        make_shape(devices, (count * TOKENS, WIDTH), jnp.bfloat16, SPLIT),
        make_shape(devices, (count, EXPERTS), jnp.int32, SPLIT),
    )


REPORTS = {"jax 27748": list_scans, "marin 5394": list_experts}


def plan(lower: Callable[[], Lowered]) -> dict[str, Any]:
    """Return the bytes of the plan's parts, or why XLA makes no plan."""
    try:
        return {**read_plan_parts(lower().compile())}
    except JaxRuntimeError as error:
        return {"reason": str(error).splitlines()[0][:300]}


def main() -> dict[str, Any]:
    """Plan all programs for the device that the command line names."""
    device = find(sys.argv[1])
    programs: dict[str, dict[str, dict[str, Any]]] = {}  # by report and variant
    for report, list_variants in REPORTS.items():
        programs[report] = {name: plan(lower) for name, lower in list_variants(device)}
    return {"programs": programs, "flags": {}}


if __name__ == "__main__":
    print_answer(main)
