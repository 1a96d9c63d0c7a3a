"""Predict the peak of one device, however many there are, without running: JAX.

XLA plans the step for devices that are only declared. Every device runs the same program, and has
the same plan.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import jax

from framebench.adapters.base import RanksUnavailable
from framebench.adapters.jax.program import count_plan_bytes
from framebench.adapters.jax.shaped import ShapedAdapter, count_bytes_of_one
from framebench.suite.case import Case

PACKAGES = ("jax", "jaxlib", "flax", "optax")


def predict_rank_bytes(case: Case) -> dict[str, Any]:
    """Return the bytes that one device needs for a steady step by XLA's plan, and their parts.

    Raises RanksUnavailable.
    """
    try:
        jax.config.update("jax_num_cpu_devices", case.ranks)
        jax.config.update("jax_platforms", "cpu")
    except AttributeError as error:
        raise RanksUnavailable(f"JAX {version('jax')} has no option jax_num_cpu_devices") from error
    adapter = ShapedAdapter(case)
    adapter.build()
    adapter.compile()
    (compiled,) = adapter.program.compiled.values()
    return {
        "rank": 0,
        "peak_bytes": count_plan_bytes(compiled),
        "parts": list_parts(adapter, compiled),
        "versions": {name: version(name) for name in PACKAGES},
        "note": "the plan of XLA:CPU, which a GPU's need not resemble",
    }


def list_parts(adapter: ShapedAdapter, compiled: Any) -> dict[str, int]:
    """Return the bytes that one device is given, and the bytes that the plan adds.

    Parts without any bytes are left out.
    """
    parts = {
        "parameters": count_bytes_of_one(adapter.params),
        "optimizer states": count_bytes_of_one(adapter.optimizer_state or ()),
        "inputs": count_bytes_of_one(adapter.inputs),
        "other arguments": count_bytes_of_one((adapter.stats, adapter.constants)),
    }
    plan = compiled.memory_analysis()
    # arguments that the step does not read are not passed, and each may be padded
    padding = plan.argument_size_in_bytes - sum(parts.values())
    parts["temporaries"] = plan.temp_size_in_bytes
    parts["new outputs"] = plan.output_size_in_bytes - plan.alias_size_in_bytes
    parts["padding"] = padding
    return {name: size for name, size in parts.items() if size}
