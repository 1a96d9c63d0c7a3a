"""What one step of JAX does: what was asked of the compiler, what its executables contain, which arrays came and went; and what
the device's allocator counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import ClosedJaxpr

from framebench.adapters.base import Evidence
from framebench.adapters.jax.accumulation import Tree
from framebench.adapters.jax.program import Program, compiled_operands, compiled_products, products

# of Device.memory_stats()
PEAKS = {"allocator.in_use": "peak_bytes_in_use", "allocator.reserved": "peak_pool_bytes"}
COUNTERS = {
    "allocations": "num_allocs",
    "largest_allocation_bytes": "largest_alloc_size",
    "limit_bytes": "bytes_limit",
}
CACHE_EVENTS = {
    "/jax/compilation_cache/cache_hits": "programs_from_cache",
    "/jax/compilation_cache/cache_misses": "programs_compiled",
}
CACHE: Counter[str] = Counter()  # of this process, by event
jax.monitoring.register_event_listener(lambda event, **_: CACHE.update([event]))


class Observed:
    """What one step does with its arrays. `stats`: the running statistics before it; `handed_over`: what it may write over."""

    def __init__(self, stats: Tree, handed_over: Tree) -> None:
        self.before = [np.array(a) for a in jax.tree.leaves(stats)]
        self.handed_over = jax.tree.leaves(handed_over)

    def evidence(self, stats: Tree, weights: Tree, state: Tree, kept: Any) -> Evidence:
        """`kept`: the residuals of an evaluation that keeps its graph."""
        residuals: list[Array] = jax.tree.leaves(kept)
        return {
            "residuals": len(residuals),
            "residual_bytes": sum(a.nbytes for a in residuals),
            "weight_dtypes": _dtypes(weights),
            "state_dtypes": _dtypes(state),
            "buffers": len(self.before),
            "buffers_changed": sum(not np.array_equal(a, b) for a, b in zip(self.before, jax.tree.leaves(stats))),
            "arguments_deleted": sum(a.is_deleted() for a in self.handed_over),
        }


def counted(program: Program, jaxprs: list[ClosedJaxpr]) -> Evidence:
    """What was asked of the compiler, and what its executables contain."""
    asked = [e for jaxpr in jaxprs for e in products(jaxpr)]
    compiled = list(program.compiled.values())
    return {
        "operands": dict(Counter(str(v.aval.dtype) for e in asked for v in e.invars)),
        "precision": dict(Counter(str(e.params["precision"]) for e in asked)),
        "products": len(asked),
        "compiled_operands": dict(sum(map(compiled_operands, compiled), Counter())),
        "compiled_products": dict(sum(map(compiled_products, compiled), Counter())),
        "compilations": program.compilations,
        "compiler_options": program.options,
        "aliased_bytes": sum(c.memory_analysis().alias_size_in_bytes for c in compiled),
    }


def _dtypes(tree: Tree) -> Evidence:
    """How many floating-point arrays there are of each type; single numbers, such as counts of steps, are left out."""
    return dict(Counter(str(a.dtype) for a in jax.tree.leaves(tree) if a.ndim and jnp.issubdtype(a.dtype, jnp.floating)))


def statistics() -> dict[str, int]:
    """Of the device's allocator; None, here empty, on the CPU and where there is no pool."""
    return jax.local_devices()[0].memory_stats() or {}


def allocator_peaks() -> dict[str, int]:
    stats = statistics()
    return {name: stats[key] for name, key in PEAKS.items() if key in stats}


def allocator_counters() -> dict[str, int]:
    """With how many programs came from the cache, where the allocator counts anything."""
    stats = statistics()
    counters = {name: stats[key] for name, key in COUNTERS.items() if key in stats}
    return counters | {name: CACHE[event] for event, name in CACHE_EVENTS.items()} if counters else {}
