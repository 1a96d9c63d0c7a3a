"""Plan what XLA's executable of a case reserves on a device that is not here.

It runs in an environment with XLA's compiler for the device. The adapter's own step is lowered from
shapes alone and compiled ahead of time: the plan is that of the very program which the device would
run. `jax_server` answers for case after case.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jax.errors import JaxRuntimeError

from framebench.adapters.jax.program import read_plan_parts
from framebench.adapters.jax.shaped import ShapedAdapter
from framebench.devices.catalog import Device
from framebench.devices.plans.answer import PlannerAnswer
from framebench.devices.xla import jax_buffers, jax_target
from framebench.devices.xla.jax_errors import explain_error
from framebench.devices.xla.jax_output import copy_stderr
from framebench.devices.xla.jax_toolkit import Options, compile_with_tiles, make_toolkit
from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.case import Case

SCENARIOS = ("train", "eval", "finetune")
SETS_THE_ALLOCATOR = (
    "it sets the allocator, of which a plan knows nothing: the plan is that of the strategy's "
    "baseline"
)
UNPLANNED = {  # by a strategy's switch: why a plan cannot tell
    "no_jit": "the step runs operation by operation under jax.disable_jit: there is no program "
    "to plan",
    "after_training": "what is left of the training that ran before is seen by running it",
    "sdpa": "cuDNN itself says which of its kernels attention gets, and is not installed",
    "autotune_off": "XLA tunes convolutions by running them: without the device there is no plan "
    "with tuning to compare with",
    "pool_off": SETS_THE_ALLOCATOR,
    "malloc_async": SETS_THE_ALLOCATOR,
    "memory_fraction": SETS_THE_ALLOCATOR,
    "preallocate": SETS_THE_ALLOCATOR,
}
OVER_AIM = re.compile(
    r"Can't reduce memory use below \S+ \((\d+) bytes\) by rematerialization; "
    r"only reduced to \S+ \((\d+) bytes\)"
)
RECOMPUTED = re.compile(r"^\s+(?:ROOT )?%(\S*\.remat\S*) = ", re.M)
NOT_HELD = {
    "gpu": (
        "workspaces of convolutions and of matrix products, which XLA chooses by running them on "
        "the GPU",
        "the allocator's rounding",
        "the CUDA context and the kernels that are loaded, which lie beside JAX's pool",
    ),
    "tpu": ("what the TPU's runtime keeps for itself",),
}
COMPILERS = {"gpu": ("jax-cuda13-plugin", "jax-cuda12-plugin"), "tpu": ("libtpu",)}
PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", *COMPILERS["gpu"], *COMPILERS["tpu"])
POOL = 0.75  # of a GPU's memory is what JAX takes for its pool by default


def explain_missing_plan(case: Case) -> str | None:
    """Return why XLA gives no usable plan of this case, or None if it does."""
    if case.scenario not in SCENARIOS:
        return f"plans are made of {', '.join(SCENARIOS)}, not of {case.scenario}"
    for part in case.parts:
        if part.switch.startswith("sharded") and part.options.get("processes"):
            return "over processes the program is that of the same strategy in one process"
        if part.switch in UNPLANNED:
            return UNPLANNED[part.switch]
    return None


def plan(case: Case, device: Device) -> PlannerAnswer:
    """Return the bytes that XLA plans for a case on a device, or why there is no plan.

    That the case does not fit is an answer too, and raises nothing.
    """
    obstacle = explain_missing_plan(case)
    if obstacle:
        return PlannerAnswer("not planned", obstacle)
    try:
        adapter = ShapedAdapter(case, jax_target.make_devices(device, case.ranks))
        adapter.build()
    except IncompatibleStrategies as error:
        return PlannerAnswer("not planned", str(error))
    options = dict(adapter.recipe.compiler_options)
    with tempfile.TemporaryDirectory() as folder, copy_stderr() as errors:
        compiler_options = options | {"xla_dump_to": folder}
        if device.kind == "gpu":
            compiler_options |= make_toolkit(Path(folder))
        try:
            is_without_triton = compile_for_device(adapter, compiler_options)
        except JaxRuntimeError as error:
            return explain_error(str(error))
        buffers = jax_buffers.list_largest_holders(Path(folder))
    (compiled,) = adapter.program.compiled.values()
    memory = compiled.memory_analysis()
    unplanned_bytes = adapter.count_unplanned_bytes()
    in_host = memory.host_argument_size_in_bytes + memory.host_temp_size_in_bytes
    if not in_host and any(part.switch in ("offload", "optimizer_offload") for part in case.parts):
        return PlannerAnswer(
            "not planned", "the plan has nothing in the host's memory: the strategy is not in it"
        )
    parts = read_plan_parts(compiled)
    if unplanned_bytes:
        parts["beside"] = unplanned_bytes
    if in_host:
        parts["host"] = in_host
    peak = adapter.program.plan + unplanned_bytes
    compilers = read_versions(COMPILERS[device.kind])
    return PlannerAnswer(
        "planned",
        peak_bytes=peak,
        parts=parts,
        largest=buffers,
        not_held=NOT_HELD[device.kind],
        flags=options,
        notes=write_notes(device, peak, errors[0], compiled.as_text(), is_without_triton),
        compiler=", ".join(f"{name} {release}" for name, release in compilers.items()),
        versions=read_versions(PACKAGES),
    )


def compile_for_device(adapter: ShapedAdapter, options: Options) -> bool:
    """Compile the step, and return whether that took cuBLAS for all matmuls.

    Raises JaxRuntimeError.
    """

    def compile_step(chosen: Options) -> None:
        adapter.program.options = chosen
        adapter.compile()

    _, is_without_triton = compile_with_tiles(compile_step, options)
    return is_without_triton


def write_notes(
    device: Device, peak: int, errors: str, program: str, is_without_triton: bool
) -> list[str]:
    """Return notes on this plan for its reader, in whole sentences.

    Args:
        device: The target device.
        peak: Bytes of the plan.
        errors: What XLA wrote to standard error.
        program: The text of the compiled program.
        is_without_triton: Whether XLA had no tiles for Triton's matmuls.
    """
    notes = []
    if is_without_triton:
        notes.append(
            "XLA has no default tiles of Triton's kernels for these shapes, and was asked to take "
            "cuBLAS's matmuls: what it plans on the GPU itself may differ."
        )
    recomputed = len(set(RECOMPUTED.findall(program)))
    if recomputed:
        notes.append(
            f"XLA itself computes {recomputed} values again to stay within the device's memory: "
            "for a larger one it plans otherwise."
        )
    over_aim = OVER_AIM.search(errors)
    if over_aim:
        notes.append(
            f"XLA could not bring it down to the {int(over_aim[1]) / 2**20:,.1f} MiB "
            "that it aims at."
        )
    if device.kind == "gpu" and POOL < peak / device.memory_bytes <= 1:
        notes.append(
            f"More than JAX's pool, {POOL:.0%} of the GPU's memory by default: set "
            "XLA_PYTHON_CLIENT_MEM_FRACTION."
        )
    return notes


def read_versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of the named packages that are installed."""
    versions = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
