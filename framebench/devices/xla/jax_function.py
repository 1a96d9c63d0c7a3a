"""Plan what a function of JAX's needs on a device that is not here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax.errors import JaxRuntimeError
from jax.sharding import SingleDeviceSharding

from framebench.adapters.jax.program import count_plan_bytes, read_plan_parts
from framebench.devices.catalog import Device, DoesNotFit
from framebench.devices.needs import INTERVALS, estimate_needs
from framebench.devices.xla import jax_target
from framebench.devices.xla.jax_errors import explain_error
from framebench.devices.xla.jax_older import help_jax
from framebench.devices.xla.jax_toolkit import compile_with_tiles, make_toolkit

COMPILERS = {"gpu": 'pip install "jax[cuda13]"', "tpu": 'pip install "jax[tpu]"'}


@dataclass(frozen=True)
class FunctionPlan:
    """What XLA plans for one run of a function. Sizes are in bytes."""

    # arguments, results and temporaries, without what results take over from donated arguments
    peak: int
    parts: dict[str, int]  # by what they are for
    device: Device

    @property
    def needs(self) -> int:
        """Return the bytes of the device's memory to plan with.

        That is the peak, the error that plans were within, and on a GPU the largest CUDA context
        that was measured.

        JAX's pool takes three quarters of a GPU by default, whatever the plan says: to have no
        more, set XLA_PYTHON_CLIENT_PREALLOCATE=false.
        """
        return estimate_needs(self.peak, INTERVALS["jax"].high, self.device)


def plan(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    device: Device,
    donate_argnums: int | Sequence[int] = (),
) -> FunctionPlan:
    """Return XLA's plan for one device.

    Raises ImportError without a compiler for it, and DoesNotFit.
    """
    help_jax()
    try:
        (target,) = jax_target.make_devices(device, 1)
    except (JaxRuntimeError, RuntimeError, ValueError) as error:
        raise ImportError(
            f"JAX has no compiler for {device.title} here: {COMPILERS[device.kind]} "
            f"(it said: {str(error).splitlines()[0][:200]})"
        ) from error
    place = SingleDeviceSharding(target)

    def declare(array: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(
            jax.numpy.shape(array), jax.dtypes.result_type(array), sharding=place
        )

    shapes = jax.tree.map(declare, tuple(arguments))
    lowered = jax.jit(function, donate_argnums=donate_argnums).lower(*shapes)
    with tempfile.TemporaryDirectory() as folder:
        options = make_toolkit(Path(folder)) if device.kind == "gpu" else {}
        try:
            compiled, _ = compile_with_tiles(lowered.compile, options)
        except JaxRuntimeError as error:
            if explain_error(str(error)).outcome == "refused":
                raise DoesNotFit(f"XLA cannot fit it into {device.title}: {error}") from error
            raise
    peak = count_plan_bytes(compiled)
    # for TPUs XLA refuses by itself, for GPUs the allocator would
    if peak > device.memory_bytes:
        raise DoesNotFit(
            f"the plan has {peak / 2**30:,.1f} GiB, and {device.title} has {device.gib:,.1f} GiB"
        )
    return FunctionPlan(
        peak=peak,
        parts=read_plan_parts(compiled),
        device=device,
    )
