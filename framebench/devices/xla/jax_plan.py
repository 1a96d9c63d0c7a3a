"""What XLA's executable of a case reserves on a device that is not here:
`python -m framebench.devices.xla.jax_plan CASE DEVICE`, in an environment with XLA's compiler for it.

The adapter's own step is lowered from shapes alone and compiled ahead of time: the plan is that of the very program which the
device would run. Prints one JSON object last: the fields of `Planned` that it knows.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
from jax.errors import JaxRuntimeError

from framebench.adapters.jax.shaped import ShapedAdapter
from framebench.devices.catalog import Device, find
from framebench.devices.xla import jax_buffers, jax_target
from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.case import Case

SCENARIOS = ("train", "eval", "finetune")
UNPLANNED = {  # by a strategy's switch: why a plan cannot tell
    "no_jit": "the step runs operation by operation under jax.disable_jit: there is no program to plan",
    "after_training": "what is left of the training that ran before is seen by running it",
    "sdpa": "cuDNN itself says which of its kernels attention gets, and is not installed",
    "autotune_off": "XLA tunes convolutions by running them: without the device there is no plan with tuning to compare with",
} | dict.fromkeys(
    ("pool_off", "malloc_async", "memory_fraction", "preallocate"),
    "it sets the allocator, of which a plan knows nothing: the plan is that of the strategy's baseline",
)  # fmt: skip
MEMORY = re.compile(r"Used ([\d.]+)([KMGT]) of ([\d.]+)([KMGT]) hbm")
SINGLE = re.compile(r"Allocation \(size=(\d+)\) would exceed memory \(size=(\d+)\)")
LACKING = re.compile(r"UNIMPLEMENTED: (.*)")
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
TIGHT = re.compile(
    r"Can't reduce memory use below \S+ \((\d+) bytes\) by rematerialization; only reduced to \S+ \((\d+) bytes\)"
)
GPU = (
    "workspaces of convolutions and of matrix products, which XLA chooses by running them on the card",
    "the allocator's rounding",
    "the CUDA context and the kernels that are loaded, which lie beside JAX's pool",
)
TPU = ("what the TPU's runtime keeps for itself",)
POOL = 0.75  # of a card's memory is what JAX takes for its pool, unless told otherwise


def obstacle(case: Case) -> str | None:
    """Why there is no plan of this case, if there is none."""
    if case.scenario not in SCENARIOS:
        return f"plans are made of {', '.join(SCENARIOS)}, not of {case.scenario}"
    if any(part.how.startswith("sharded") and part.options.get("processes") for part in case.parts):
        return "over processes the program is that of the same strategy in one process"
    return next((UNPLANNED[part.how] for part in case.parts if part.how in UNPLANNED), None)


def plan(case: Case, device: Device) -> dict[str, Any]:
    """Raises nothing that XLA says of memory."""
    if why := obstacle(case):
        return {"outcome": "not planned", "reason": why}
    try:
        adapter = ShapedAdapter(case, jax_target.devices(device, case.ranks))
        adapter.build()
    except IncompatibleStrategies as error:
        return {"outcome": "not planned", "reason": str(error)}
    with tempfile.TemporaryDirectory() as folder, said() as errors:
        options = dict(adapter.recipe.compiler_options)
        adapter.program.options = options | {"xla_dump_to": folder}
        try:
            adapter.compile()
        except JaxRuntimeError as error:
            return refused(str(error))
        buffers = jax_buffers.largest(Path(folder))
    told = planned(adapter, device, errors[0], buffers, options)
    if "host" not in told["parts"] and any(part.how in ("offload", "optimizer_offload") for part in case.parts):
        return {"outcome": "not planned", "reason": "the plan has nothing in the host's memory: the strategy is not in it"}
    return told


def refused(error: str) -> dict[str, Any]:
    """That it does not fit is an answer; anything else is a failure."""
    if found := MEMORY.search(error):
        needs = int(float(found[1]) * UNITS[found[2]])
        of = f"needs {needs / 2**30:,.2f} GiB at compile time, of {float(found[3]) * UNITS[found[4]] / 2**30:,.2f} GiB"
        return {"outcome": "refused", "reason": of, "needs_bytes": needs}
    if found := SINGLE.search(error):
        needs, has = (int(size) for size in found.groups())
        of = f"one buffer alone needs {needs / 2**30:,.2f} GiB at compile time, of {has / 2**30:,.2f} GiB"
        return {"outcome": "refused", "reason": of, "needs_bytes": needs}
    if "RESOURCE_EXHAUSTED" in error:
        return {"outcome": "refused", "reason": f"XLA refuses for want of memory: {error.splitlines()[0][:300]}"}
    if found := LACKING.search(error):
        return {"outcome": "not planned", "reason": f"XLA cannot compile it for this device: {found[1].strip()}"}
    return {"outcome": "failed", "reason": " ".join(error.split())[:400]}


def planned(
    adapter: ShapedAdapter, device: Device, errors: str, buffers: list[dict[str, Any]], options: dict[str, Any]
) -> dict[str, Any]:
    (compiled,) = adapter.program.compiled.values()
    m = compiled.memory_analysis()
    parts = {
        "arguments": m.argument_size_in_bytes, "outputs": m.output_size_in_bytes, "temporaries": m.temp_size_in_bytes,
        "aliased": m.alias_size_in_bytes,
    }  # fmt: skip
    more = {"beside": adapter.beside(), "host": m.host_argument_size_in_bytes + m.host_temp_size_in_bytes}
    peak = adapter.program.plan + more["beside"]
    return {
        "outcome": "planned", "peak_bytes": peak, "parts": parts | {name: size for name, size in more.items() if size},
        "largest": buffers, "not_held": GPU if device.kind == "gpu" else TPU, "flags": options,
        "notes": notes(device, peak, errors, compiled.as_text()),
        "compiler": compiler(device), "versions": versions(),
    }  # fmt: skip


def notes(device: Device, peak: int, errors: str, text: str) -> list[str]:
    """What to know of this plan; whole sentences."""
    sentences = []
    if again := len(set(re.findall(r"^\s+(?:ROOT )?%(\S*\.remat\S*) = ", text, re.M))):
        sentences.append(
            f"XLA itself computes {again} values again to stay within the device's memory: for a larger one it plans otherwise."
        )
    if tight := TIGHT.search(errors):
        sentences.append(f"XLA could not bring it down to the {int(tight[1]) / 2**20:,.1f} MiB that it aims at.")
    if device.kind == "gpu" and POOL < peak / device.memory_bytes <= 1:
        sentences.append(f"More than JAX's pool, {POOL:.0%} of the card by default: set XLA_PYTHON_CLIENT_MEM_FRACTION.")
    return sentences


@contextmanager
def said() -> Iterator[list[str]]:
    """What XLA writes to standard error meanwhile, as the only item of the list afterwards; passed on as well."""
    heard: list[str] = []
    with tempfile.TemporaryFile() as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield heard
        finally:
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            heard.append(file.read().decode(errors="replace"))
            sys.stderr.write(heard[0])


def compiler(device: Device) -> str:
    names = ("jax-cuda13-plugin", "jax-cuda12-plugin") if device.kind == "gpu" else ("libtpu",)
    return ", ".join(f"{name} {v}" for name, v in installed(*names).items())


def versions() -> dict[str, str]:
    return installed("jax", "jaxlib", "flax", "optax", "numpy", "jax-cuda13-plugin", "jax-cuda12-plugin", "libtpu")


def installed(*names: str) -> dict[str, str]:
    """Those that are there."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    asked, target = sys.argv[1:]
    case = Case.of(asked)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints
    print(json.dumps(plan(case, find(target))), file=out, flush=True)
    os._exit(0)
