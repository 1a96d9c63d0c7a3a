"""Count what one step of JAX does.

That is what was requested of the compiler, what its executables contain, which arrays came and
went, and what the device's allocator counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import ClosedJaxpr

from framebench.adapters.base import Evidence
from framebench.adapters.jax.accumulation import Tree
from framebench.adapters.jax.program import (
    StepProgram,
    count_compiled_products,
    count_operand_types,
    find_products,
)

# our names of what Device.memory_stats() counts
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
CACHE: Counter[str] = Counter()  # how often each event of JAX's monitoring occurred in this process
jax.monitoring.register_event_listener(lambda event, **_: CACHE.update([event]))


class StepArrays:
    """The arrays before a step, to be compared with those after it."""

    def __init__(self, stats: Tree, handed_over: Tree) -> None:
        """Remember the arrays before the step.

        Args:
            stats: The running statistics.
            handed_over: What the step may write over.
        """
        self.stats_before = [np.array(a) for a in jax.tree.leaves(stats)]
        self.handed_over = jax.tree.leaves(handed_over)

    def compare(self, stats: Tree, weights: Tree, state: Tree, kept: Any) -> Evidence:
        """Return what the step did with its arrays, from those after it.

        Args:
            stats: The running statistics.
            weights: All weights.
            state: The optimizer's state.
            kept: The residuals of an evaluation that keeps its graph.
        """
        residuals: list[Array] = jax.tree.leaves(kept)
        changed = 0
        for before, after in zip(self.stats_before, jax.tree.leaves(stats)):
            changed += not np.array_equal(before, after)
        return {
            "residuals": len(residuals),
            "residual_bytes": sum(a.nbytes for a in residuals),
            "weight_dtypes": count_dtypes(weights),
            "state_dtypes": count_dtypes(state),
            "buffers": len(self.stats_before),
            "buffers_changed": changed,
            "arguments_deleted": sum(a.is_deleted() for a in self.handed_over),
        }


def count_in_program(program: StepProgram, jaxprs: list[ClosedJaxpr]) -> Evidence:
    """Count what was requested of the compiler, and what its executables contain."""
    requested = find_products(*jaxprs)
    operand_dtypes: Counter[str] = Counter()
    for product in requested:
        operand_dtypes.update(str(variable.aval.dtype) for variable in product.invars)
    executables = list(program.compiled.values())
    return {
        "operands": dict(operand_dtypes),
        "precision": dict(Counter(str(product.params["precision"]) for product in requested)),
        "products": len(requested),
        "compiled_operands": add_counts(count_operand_types, executables),
        "compiled_products": add_counts(count_compiled_products, executables),
        "compilations": program.compilations,
        "compiler_options": program.options,
        "aliased_bytes": sum(e.memory_analysis().alias_size_in_bytes for e in executables),
    }


def add_counts(count: Callable[[Any], Counter[str]], executables: list[Any]) -> dict[str, int]:
    """Return the sum of what `count` returns of each executable."""
    total: Counter[str] = Counter()
    for executable in executables:
        total.update(count(executable))
    return dict(total)


def count_dtypes(tree: Tree) -> dict[str, int]:
    """Count the floating-point arrays of each type.

    Single numbers, such as counts of steps, are left out.
    """
    counts: Counter[str] = Counter()
    for array in jax.tree.leaves(tree):
        if array.ndim and jnp.issubdtype(array.dtype, jnp.floating):
            counts[str(array.dtype)] += 1
    return dict(counts)


def read_allocator() -> dict[str, int]:
    """Return what the device's allocator counts.

    It is empty on the CPU and where the allocator has no pool, where JAX gives None.
    """
    return jax.local_devices()[0].memory_stats() or {}


def read_allocator_peaks() -> dict[str, int]:
    """Return the peaks that the allocator counts, by our names."""
    counts = read_allocator()
    return {name: counts[key] for name, key in PEAKS.items() if key in counts}


def read_allocator_counters() -> dict[str, int]:
    """Return the allocator's other counters, and how many programs came from the cache.

    It is empty where the allocator counts none of them.
    """
    counts = read_allocator()
    counters = {name: counts[key] for name, key in COUNTERS.items() if key in counts}
    if counters:
        for event, name in CACHE_EVENTS.items():
            counters[name] = CACHE[event]
    return counters
