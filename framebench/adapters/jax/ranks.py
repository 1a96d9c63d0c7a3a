"""How JAX shares a step among devices: the strategies of `suite/catalog/ranks.py`. See `base.py`.

One process has all devices, and one program is written for them together; XLA divides it by where its arguments lie.
"""

from __future__ import annotations

from functools import cache

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from framebench.adapters.base import Proof, Switches
from framebench.adapters.jax.adapter import JaxAdapter

AXIS = "ranks"
switch = Switches()


@cache
def every_rank(ranks: int) -> Mesh:
    return jax.make_mesh((ranks,), (AXIS,), axis_types=(AxisType.Auto,))


def along(ranks: int, shape: tuple[int, ...]) -> NamedSharding:
    """Divided along the longest axis that so many ranks divide; whole on every device if none does."""
    fitting = [size for size in shape if size % ranks == 0]
    axis = shape.index(max(fitting)) if fitting else None
    return NamedSharding(every_rank(ranks), PartitionSpec(*(AXIS if i == axis else None for i in range(len(shape)))))


@switch
def sharded(run: JaxAdapter, split: tuple[str, ...]) -> Proof:
    """`split`: what is divided besides the batch, of `params` and `state`. The rest is on every device."""
    ranks = run.case.ranks
    whole = NamedSharding(every_rank(ranks), PartitionSpec())
    batch = NamedSharding(every_rank(ranks), PartitionSpec(AXIS))

    def sharding(what: str, shape: tuple[int, ...]) -> NamedSharding:
        if what == "batch":
            return batch
        return along(ranks, shape) if what in split else whole

    run.sharding = sharding
    return lambda e: False  # what a device holds and sends is counted by who runs several
