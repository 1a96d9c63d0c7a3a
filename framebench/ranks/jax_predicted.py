"""The peak of one device, however many there are, without running: XLA's plan of the step, divided over devices that are only
declared. Every device runs the same program, and has the same plan."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import jax

from framebench.adapters.jax.program import count_plan_bytes
from framebench.adapters.jax.shaped import ShapedAdapter, count_bytes_of_one
from framebench.suite.case import Case


class Gone(Exception):
    """This JAX lacks what a prediction over ranks needs; the message says what."""


def predict(case: Case) -> dict[str, Any]:
    """Of a steady step: bytes of one device by XLA's plan, and their parts."""
    try:
        jax.config.update("jax_num_cpu_devices", case.ranks)
        jax.config.update("jax_platforms", "cpu")
    except AttributeError as error:
        raise Gone(f"JAX {version('jax')} has no option jax_num_cpu_devices") from error
    adapter = ShapedAdapter(case)
    adapter.build()
    adapter.compile()
    (compiled,) = adapter.program.compiled.values()
    return {
        "rank": 0, "peak_bytes": count_plan_bytes(compiled), "parts": parts(adapter, compiled), "versions": versions(),
        "note": "the plan of XLA:CPU, which a GPU's need not resemble",
    }  # fmt: skip


def parts(adapter: ShapedAdapter, compiled: Any) -> dict[str, int]:
    """What one device is given, and what the plan has besides."""
    held = {
        "parameters": count_bytes_of_one(adapter.params),
        "optimizer states": count_bytes_of_one(adapter.optimizer_state or ()),
        "inputs": count_bytes_of_one(adapter.inputs),
        "other arguments": count_bytes_of_one((adapter.stats, adapter.constants)),
    }
    plan = compiled.memory_analysis()
    made = {"temporaries": plan.temp_size_in_bytes, "new outputs": plan.output_size_in_bytes - plan.alias_size_in_bytes}
    # arguments that the step does not read are not passed, and each may be padded
    made["padding"] = plan.argument_size_in_bytes - sum(held.values())
    return {name: size for name, size in (held | made).items() if size}


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("jax", "jaxlib", "flax", "optax")}
