"""Ask what a training step needs on a GPU or TPU that is not here.

    import torch
    from framebench.devices import GiB, simulate

    def make_step(device):
        model = torch.nn.Linear(4096, 4096).to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        batch = torch.randn(64, 4096, device=device)

        def step():
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()

        return step

    assert simulate(make_step, "a100-40gb").needs < 24 * GiB

`simulate` runs a step of PyTorch's on tensors without numbers, and hands every storage out by a
model of PyTorch's caching allocator. `plan` compiles a function of JAX's for the device. Both are
predictions: docs/simulate.md says how far they were off. In a test use the fixture `gpu_memory`
(`framebench.devices.pytest_plugin`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from framebench.devices.catalog import DEVICES, Device, DoesNotFit, UnknownDevice, find

if TYPE_CHECKING:
    # each framework is imported by the function that needs it
    import torch

    from framebench.devices.simulation.torch_simulate import Simulation
    from framebench.devices.xla.jax_function import FunctionPlan

__all__ = [
    "Device",
    "DoesNotFit",
    "GiB",
    "UnknownDevice",
    "devices",
    "plan",
    "simulate",
]

GiB = 2**30


def devices() -> tuple[Device, ...]:
    """Return the GPUs and TPUs that can be asked about."""
    return DEVICES


def simulate(
    make_step: Callable[[torch.device], Callable[[], object]],
    device: str | Device,
    *,
    steps: int = 3,
    expandable_segments: bool = False,
    limit: int | None = None,
    ranks: int = 1,
    chosen: Literal["all", "none"] | None = None,
    other_streams: Literal["done", "waiting"] | None = None,
) -> Simulation:
    """Return the memory that a step of PyTorch's takes on a GPU, which need not be here.

    Nothing is computed: tensors have shapes and no numbers. So the step may read a number, such as
    the loss (it gets 0.0), but not decide by it how much memory it takes. What `torch.compile`
    compiles is compiled by Inductor for the device, without its kernels.

    Of several GPUs the first rank is simulated: the step may use FSDP2 (`fully_shard`),
    DistributedDataParallel and collectives, which return at once. What NCCL takes for itself lies
    outside of PyTorch's allocator, and is in none of the numbers.

    Args:
        make_step: Builds model, optimizer and batch on the device that it is given, and returns the
            step. It is called once; everything on the device must be made in it.
        device: A name of `devices()`, such as "a100-40gb", or one of them.
        steps: How often the step runs. The first one makes the optimizer's states, so that the
            steady peak needs two.
        expandable_segments: As in `PYTORCH_CUDA_ALLOC_CONF`.
        limit: Bytes that the allocator may reserve; by default the device's memory.
        ranks: How many GPUs share the step. The process is in a group of so many ranks when
            `make_step` is called.
        chosen: How many elements operators such as `nonzero` choose, whose number is decided by
            values that tensors have not here: "none" and "all" bound the memory of the step.
        other_streams: Whether other streams that use memory (`Tensor.record_stream`) are done with
            it when the program drops it, or not before the step ends. The GPU decides, and "done"
            and "waiting" bound the memory of the step.

    Returns:
        `allocated`, `reserved` and `needs` in bytes, `timeline`, `holders` by line of the program,
        and `snapshot(path)` for https://pytorch.org/memory_viz.

    Raises:
        UnknownDevice: There is no device of this name; the message has the nearest.
        ValueError: The device is a TPU, there is no step or no rank to run, or the step ran on the
            CPU.
        ImportError: PyTorch is not installed.
        DoesNotFit: The step does not fit within the limit. It is a torch.OutOfMemoryError too, by
            which the program itself may take a smaller batch.
        NotImplementedError: The step cannot be simulated; the message says why.
    """
    target = find_device(device)
    if target.kind != "gpu":
        raise ValueError(
            f"{target.name} is a TPU, which PyTorch's allocator does not serve: plan()"
        )
    if steps < 1:
        raise ValueError(f"steps is {steps}: at least one step has to run")
    if ranks < 1:
        raise ValueError(f"ranks is {ranks}: at least one GPU has to run the step")
    obstacle = explain_other_allocator()
    if obstacle:
        raise NotImplementedError(obstacle)
    require("torch", "pip install torch")
    from framebench.devices.simulation import torch_simulate
    from framebench.devices.simulation.blocks import Settings
    from framebench.devices.simulation.torch_choices import UnknownChoice, UnknownTiming
    from framebench.devices.simulation.torch_device import CUDA

    settings = Settings(
        limit=target.memory_bytes if limit is None else limit,
        expandable_segments=expandable_segments,
    )
    release = torch_simulate.read_release()

    def make_step_on_cuda(_: torch.device) -> Callable[[], object]:
        return make_step(CUDA)  # the name by which a program knows its GPU

    try:
        return torch_simulate.simulate(
            make_step_on_cuda,
            target,
            steps=steps,
            settings=settings,
            release=release,
            ranks=ranks,
            chooses_all=None if chosen is None else chosen == "all",
            waits_for_streams=None if other_streams is None else other_streams == "waiting",
        )
    except UnknownChoice as error:
        raise NotImplementedError(
            f'{error}: simulate(..., chosen="none") and chosen="all" bound what it takes'
        ) from error
    except UnknownTiming as error:
        raise NotImplementedError(
            f'{error}: simulate(..., other_streams="done") and other_streams="waiting" bound what '
            "it takes"
        ) from error


def plan(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    device: str | Device,
    *,
    donate_argnums: int | Sequence[int] = (),
) -> FunctionPlan:
    """Return the memory that XLA plans for a function of JAX's on a device, which need not be here.

    XLA's own compiler for the device makes the plan, and the function is never run. For GPUs it
    comes with JAX's CUDA plug-in (`pip install "jax[cuda13]"`), for TPUs with `libtpu`. Neither
    needs the device.

    Args:
        function: A pure function, as `jax.jit` takes it.
        arguments: Its arguments: trees of arrays, or of anything with `shape` and `dtype` such as
            `jax.ShapeDtypeStruct` or the result of `jax.eval_shape`.
        device: A name of `devices()`, such as "h100-80gb", or one of them.
        donate_argnums: Arguments whose memory the results may use, as in `jax.jit`.

    Returns:
        `peak` and `needs` in bytes, and `parts` of the peak.

    Raises:
        UnknownDevice: There is no device of this name; the message has the nearest.
        ImportError: JAX is not installed, or has no compiler for this kind of device.
        DoesNotFit: The plan is larger than the device's memory.
    """
    target = find_device(device)
    require("jax", 'pip install "jax[cuda13]"')
    from framebench.devices.xla import jax_function

    return jax_function.plan(function, arguments, target, donate_argnums)


def explain_other_allocator() -> str | None:
    """Return why the allocator that the environment's variables name is not simulated, if so."""
    from framebench.devices.simulation.scope import OUTSIDE

    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        return f"PYTORCH_NO_CUDA_MEMORY_CACHING is set: {OUTSIDE['pool_off']}"
    for variable in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        if "cudaMallocAsync" in os.environ.get(variable, ""):
            return f"{variable} asks for cudaMallocAsync: {OUTSIDE['malloc_async']}"
    return None


def find_device(device: str | Device) -> Device:
    """Return the device of this name, or the device itself. Raises UnknownDevice."""
    return device if isinstance(device, Device) else find(device)


def require(package: str, how: str) -> None:
    """Raise ImportError with the command that installs the package, if it is missing."""
    if find_spec(package) is None:
        raise ImportError(f"{package} is needed for this, and is not installed here: {how}")
