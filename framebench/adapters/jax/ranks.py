"""How JAX switches on the strategies of `framebench/strategies/ranks.py`, and what proves them.

One program is written for all devices together; XLA divides it by where its arguments lie. One process has all devices, or each
has one of its own.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from functools import cache
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from framebench.adapters.base import Switches
from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.program import bytes_by_device
from framebench.adapters.proof import Evidence, Proof, check, expect, including

AXIS = "ranks"
NAMES = {"params": "parameters", "state": "optimizer states"}  # in the evidence, of what can be divided
COLLECTIVES = re.compile(r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(")
switch = Switches()


def begin(ranks: int) -> None:
    """Set the number of devices, before any is asked for. Of several processes each has one, and waits for the others."""
    if "RANK" in os.environ:
        jax.distributed.initialize(num_processes=ranks, process_id=int(os.environ["RANK"]))
    else:
        jax.config.update("jax_num_cpu_devices", ranks)


def gathered(run: JaxAdapter, readings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the readings of each device.

    The memory of one process for all of them is no device's. Every one of several processes must call it.
    """
    every = [readings | {"held": share} for share in held(run)]
    if jax.process_count() > 1:
        return _exchanged(*every)
    if "peaks" not in readings:
        return every
    samples = [own(sample) for sample in readings["peak_samples"]]
    plan = {"peaks": own(readings["peaks"]), "peak_samples": samples, "cold_peaks": own(readings["cold_peaks"])}
    live = bytes_by_device(jax.live_arrays()).values()
    return [one | plan | {"live_bytes": size} for one, size in zip(every, live, strict=True)]


def _exchanged(readings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the readings of every process, in their order: sent as text, each as long as the longest."""
    text = np.frombuffer(json.dumps(readings).encode(), np.uint8)
    longest = int(process_allgather(np.int32(text.size)).max())
    return [json.loads(bytes(row).rstrip(b"\0")) for row in process_allgather(np.pad(text, (0, longest - text.size)))]


def whole(array: Array) -> np.ndarray:
    """Return its values, those of other processes too; every process must call it."""
    here = array.is_fully_replicated or array.is_fully_addressable
    return np.asarray(array if here else process_allgather(array, tiled=True))


def own(peaks: dict[str, int]) -> dict[str, int]:
    return {name: size for name, size in peaks.items() if name == "compiler.plan"}


def held(run: JaxAdapter) -> list[dict[str, int]]:
    """Return the bytes of the arrays on each device between two steps; a gradient lives inside the step only."""
    params, states = (bytes_by_device(_arrays(tree)) for tree in (run.params, run.optimizer_state))
    return [{"parameters": p, "gradients": 0, "optimizer states": states.get(device, 0)} for device, p in params.items()]


def _arrays(tree: Any) -> list[Array]:
    """Return the arrays of a tree without the count of steps."""
    return [a for a in jax.tree.leaves(tree) if a.ndim]


@cache
def every_rank(devices: tuple[jax.Device, ...]) -> Mesh:
    return jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)


def along(mesh: Mesh, shape: tuple[int, ...]) -> NamedSharding:
    """Return a sharding along the longest axis that so many ranks divide; whole on every device if none does."""
    fitting = [size for size in shape if size % mesh.size == 0]
    axis = shape.index(max(fitting)) if fitting else None
    return NamedSharding(mesh, PartitionSpec(*(AXIS if i == axis else None for i in range(len(shape)))))


@switch
def sharded(run: JaxAdapter, split: tuple[str, ...], processes: bool = False) -> Proof:
    """Divide the batch over several devices, and `split`, of `params` and `state`; the rest is on every device.

    With `processes` each device is in one of its own.
    """
    ranks, mesh = run.case.ranks, every_rank(tuple(run.devices))
    everywhere = NamedSharding(mesh, PartitionSpec())
    batch = NamedSharding(mesh, PartitionSpec(AXIS))

    def sharding(what: str, shape: tuple[int, ...]) -> NamedSharding:
        if what == "batch":
            return batch
        return along(mesh, shape) if what in split else everywhere

    run.recipe.sharding, run.recipe.values = sharding, whole

    def count_share(what: str, leaves: list[Array]) -> int:
        """Return the bytes of these arrays that each device has by the sharding."""
        total = 0
        for array in leaves:
            shape = sharding(what, array.shape).shard_shape(array.shape)
            total += array.dtype.itemsize * math.prod(shape)
        return total

    def count_held(_: Evidence) -> Evidence:
        """Return what each device holds, and what it should hold as it was declared."""
        trees = {"params": _arrays(run.params), "state": _arrays(run.optimizer_state)}
        trees = {what: arrays for what, arrays in trees.items() if arrays}
        return {
            "held": held(run),
            "collectives": collectives(run),
            "processes": jax.process_count(),
            "whole": {NAMES[what]: sum(a.nbytes for a in arrays) for what, arrays in trees.items()},
            "share": {NAMES[what]: count_share(what, arrays) for what, arrays in trees.items()},
        }

    def is_held_as_declared(e: Evidence) -> bool:
        return all(each[name] == share for each in e["held"] for name, share in e["share"].items())

    def is_divided_as_declared(e: Evidence) -> bool:
        divided = {name for name, share in e["share"].items() if share < e["whole"][name]}
        declared = {NAMES[what] for what in split}
        return divided == declared & e["share"].keys()

    proof = expect(processes=ranks if processes else 1)
    proof &= check(is_held_as_declared, "each device holds its share as it was declared")
    proof &= check(is_divided_as_declared, "the shares are smaller than the whole where they were declared so")
    # gradients are summed up over devices; in evaluation what is whole everywhere needs nothing sent
    if run.case.stage.trains:
        proof &= expect(collectives=including("all-reduce"))
    if split:
        proof &= expect(collectives=including("all-gather"))
    if not run.case.stage.trains and not split:
        proof &= expect(collectives={})
    return proof.counting(count_held)


def collectives(run: JaxAdapter) -> dict[str, int]:
    """Count the collectives in the optimised program of the step, which runs on every device."""
    (compiled,) = run.program.compiled.values()
    return dict(Counter(COLLECTIVES.findall(compiled.as_text())))
