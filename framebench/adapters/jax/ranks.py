"""How JAX switches on the strategies of `framebench/strategies/ranks.toml`, and their proofs.

One program is written for all devices together; XLA divides it by the places of its arguments.
Either one process has all devices, or each device has a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from framebench.adapters.base import Switches
from framebench.adapters.jax.accumulation import Tree
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.program import count_bytes_by_device
from framebench.adapters.proof import Evidence, Proof, equal_to, expect, including

# returns where an array of this kind and shape lies, such as of "params"
ShardingRule = Callable[[str, tuple[int, ...]], NamedSharding]
AXIS = "ranks"  # the name of the mesh's only axis
EVIDENCE_NAMES = {"params": "parameters", "state": "optimizer states"}  # by kind of arrays
COLLECTIVES = re.compile(
    r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)"
    r"(?:-start)?\("  # an asynchronous one
)
switch = Switches()


def prepare_ranks(ranks: int) -> None:
    """Set the number of devices, before any is used.

    If there are several processes, each has one device, and waits for the others.
    """
    if "RANK" in os.environ:
        jax.distributed.initialize(num_processes=ranks, process_id=int(os.environ["RANK"]))
    else:
        jax.config.update("jax_num_cpu_devices", ranks)


def gather_readings(adapter: JaxAdapter, readings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the readings of each device, with the bytes that it holds between two steps.

    If there are several processes, each must call it. If one process has all devices, its memory
    is not that of a device: the only peak is then the compiler's plan, which is made for one
    device.
    """
    all_readings = [readings | {"held": held} for held in count_held_bytes(adapter)]
    if jax.process_count() > 1:
        (own_readings,) = all_readings
        return exchange_readings(own_readings)
    if "peaks" in readings:
        live_bytes = count_bytes_by_device(jax.live_arrays()).values()
        planned = {
            "peaks": select_plan(readings["peaks"]),
            "cold_peaks": select_plan(readings["cold_peaks"]),
            "peak_samples": [select_plan(sample) for sample in readings["peak_samples"]],
        }
        for device_readings, size in zip(all_readings, live_bytes, strict=True):
            device_readings.update(planned, live_bytes=size)
    return all_readings


def exchange_readings(readings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the readings of every process, in their order."""
    # processes exchange arrays of one shape: spaces fill up each JSON to the length of the longest
    text = json.dumps(readings).encode()
    longest = int(process_allgather(np.int32(len(text))).max())
    padded = np.frombuffer(text.ljust(longest), np.uint8)
    return [json.loads(bytes(row)) for row in process_allgather(padded)]


def select_plan(peaks: dict[str, int]) -> dict[str, int]:
    """Return only the peak by the compiler's plan."""
    return {name: size for name, size in peaks.items() if name == "compiler.plan"}


def gather_values(array: Array) -> np.ndarray:
    """Return an array's numbers, those of other processes too; every process must call it."""
    if array.is_fully_replicated or array.is_fully_addressable:
        return np.asarray(array)
    return np.asarray(process_allgather(array, tiled=True))


def count_held_bytes(adapter: JaxAdapter) -> list[dict[str, int]]:
    """Return the bytes that each device holds between two steps, by kind.

    Gradients count as 0, since they live inside the step only.
    """
    params = count_bytes_by_device(list_with_axes(adapter.params))
    states = count_bytes_by_device(list_with_axes(adapter.optimizer_state))
    sizes = []
    for device, size in params.items():
        sizes.append(
            {"parameters": size, "gradients": 0, "optimizer states": states.get(device, 0)}
        )
    return sizes


def list_with_axes(tree: Tree) -> list[Array]:
    """Return the arrays of a tree without the count of steps."""
    return [a for a in jax.tree.leaves(tree) if a.ndim]


@cache
def make_mesh(devices: tuple[jax.Device, ...]) -> Mesh:
    """Return a mesh of one axis with a rank for each device."""
    return jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)


def shard_longest_axis(mesh: Mesh, shape: tuple[int, ...]) -> NamedSharding:
    """Return a sharding along the longest axis that the number of ranks divides.

    If it divides none, every device holds the whole array.
    """
    axes: list[str | None] = [None] * len(shape)
    divisible = [size for size in shape if size % mesh.size == 0]
    if divisible:
        axes[shape.index(max(divisible))] = AXIS
    return NamedSharding(mesh, PartitionSpec(*axes))


@switch
def sharded(adapter: JaxAdapter, split: tuple[str, ...], processes: bool = False) -> Proof:
    """Divide the batch over several devices, and also the arrays in `split`.

    Every device has the whole of all other arrays.

    Args:
        adapter: The adapter of the case.
        split: Names of further arrays that are divided: "params", "state".
        processes: Whether each device has a process of its own.
    """
    ranks = adapter.case.ranks
    mesh = make_mesh(tuple(adapter.devices))
    everywhere = NamedSharding(mesh, PartitionSpec())
    by_samples = NamedSharding(mesh, PartitionSpec(AXIS))

    def sharding(kind: str, shape: tuple[int, ...]) -> NamedSharding:
        if kind == "batch":
            return by_samples
        if kind in split:
            return shard_longest_axis(mesh, shape)
        return everywhere

    adapter.recipe.sharding = sharding
    adapter.recipe.to_numpy = gather_values

    proof = expect(
        processes=ranks if processes else 1,
        held=equal_to("declared"),
        divided=equal_to("to_divide"),
    )
    # gradients are summed up over devices; arrays that are whole everywhere are not sent
    if adapter.case.scenario_spec.trains:
        proof &= expect(collectives=including("all-reduce"))
    if split:
        proof &= expect(collectives=including("all-gather"))
    if not adapter.case.scenario_spec.trains and not split:
        proof &= expect(collectives={})
    return proof.counting(partial(count_held, adapter, sharding, split))


def count_held(adapter: JaxAdapter, sharding: ShardingRule, split: tuple[str, ...]) -> Evidence:
    """Return the bytes that each device holds, and those of its share by the sharding.

    `divided` and `to_divide` name the kinds of arrays that are divided, and that should be.
    """
    held = count_held_bytes(adapter)
    share = {"parameters": 0, "gradients": 0, "optimizer states": 0}
    divided = []
    to_divide = []
    for kind, tree in (("params", adapter.params), ("state", adapter.optimizer_state)):
        arrays = list_with_axes(tree)
        name = EVIDENCE_NAMES[kind]
        for array in arrays:
            shape = sharding(kind, array.shape).shard_shape(array.shape)
            share[name] += array.dtype.itemsize * math.prod(shape)
        if share[name] < sum(array.nbytes for array in arrays):
            divided.append(name)
        if kind in split and arrays:
            to_divide.append(name)
    return {
        "held": held,
        "declared": [share] * len(held),
        "divided": divided,
        "to_divide": to_divide,
        "collectives": count_collectives(adapter),
        "processes": jax.process_count(),
    }


def count_collectives(adapter: JaxAdapter) -> dict[str, int]:
    """Count the collectives in the optimised program of the step, which runs on every device."""
    (compiled,) = adapter.program.compiled.values()
    return dict(Counter(COLLECTIVES.findall(compiled.as_text())))
