"""Predict what a PyTorch case needs on a GPU, in PyTorch's environment (`torch_server`).

The adapter's own step is simulated (`torch_simulate`): its modules, autograd and optimizers are
those of the installed release. What a GPU decides is in our rules, which were read in the sources
of one release; where releases are known to differ, `torch_gpu.Gpu` has the rule of each.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import torch

from framebench.adapters.torch.fake import FakeAdapter
from framebench.adapters.torch.quantized import import_package
from framebench.devices.catalog import Device
from framebench.devices.plans.answer import (
    ASKED,
    CONVOLUTIONS,
    NOT_ASKED,
    STEP_KIND,
    LineBuffers,
    PlannerAnswer,
)
from framebench.devices.simulation import cudnn
from framebench.devices.simulation.blocks import OutOfMemory, Settings
from framebench.devices.simulation.scope import (
    explain_missing_simulation,
    find_stand_in,
    is_without_pool,
)
from framebench.devices.simulation.torch_bounds import add_bounds, bound_by, bound_by_extremes
from framebench.devices.simulation.torch_choices import BoundedStep
from framebench.devices.simulation.torch_compiled import UnsupportedCompilation
from framebench.devices.simulation.torch_convolutions import SlowConvolution
from framebench.devices.simulation.torch_device import replace_attribute
from framebench.devices.simulation.torch_gpu import RULES_OF_RELEASE, Gpu
from framebench.devices.simulation.torch_kernels import NOT_HELD, WITHOUT_CUDNN
from framebench.devices.simulation.torch_simulate import Simulation, read_release, simulate
from framebench.models.spec import USER_MODEL
from framebench.ranks.sharding import find_fullest_rank
from framebench.suite.case import Case
from framebench.suite.user_file import describe_fault, find_line

MOST_BUFFERS = 12  # as many of those that hold memory at the peak are named
OF_COLLECTIVES = "what NCCL takes for its collectives lies outside the allocator, too"
OF_COMPILED = (
    "in a compiled step: matrices that Inductor pads and kernels that it tries against each other, "
    "as the GPU decides both"
)
RECURRENT = "recurrent layers"  # in `flags`: that the step has some that a GPU runs in cuDNN
OF_RECURRENT = (
    "what cuDNN keeps for recurrent layers, which cannot be asked without a GPU: counted is what "
    "PyTorch keeps where it runs them step by step"
)
OTHER_RELEASE = (
    "Steps are each release's own. The allocator and the kernels' memory are those of PyTorch "
    "{}.{} for all, except the choice of attention and where cuBLAS's workspace lies."
)


def make_settings(case: Case, device: Device) -> Settings:
    """Return the settings of the allocator, as the case's strategies set them."""
    options = {part.switch: part.options for part in case.parts}
    share = 1
    if "memory_fraction" in options:
        share = options["memory_fraction"].get("share", 0.8)
    return Settings(
        limit=int(device.memory_bytes * share),
        expandable_segments="expandable_segments" in options,
    )


def make_step_builder(case: Case) -> Callable[[torch.device], Callable[[], None]]:
    """Return a function that builds the case on a device and returns its step."""

    def make(where: torch.device) -> Callable[[], None]:
        """Build the case on a device, and return its step."""
        adapter = FakeAdapter(case, where)
        with ExitStack() as stack:
            if any(part.switch == "optimizer_offload" for part in case.parts):
                # torchao's optimizer would look for the devices that are there
                offload = import_package(adapter, "torchao.optim.cpu_offload")
                devices = replace_attribute(
                    offload, "get_available_devices", lambda: ["cpu", "cuda"]
                )
                stack.enter_context(devices)
            adapter.build()

        def step() -> None:
            adapter.step()
            adapter.release()

        return step

    return make


def plan(case: Case, device: Device) -> PlannerAnswer:
    """Return what a case needs on a GPU of the catalog."""
    answer = simulate_case(case, device)
    answer.versions["torch"] = torch.__version__.partition("+")[0]
    cudnn_version = cudnn.read_version() if Gpu(device).description else None
    if cudnn_version:
        answer.versions["cudnn"] = cudnn_version
    if read_release() != RULES_OF_RELEASE:
        answer.notes = [OTHER_RELEASE.format(*RULES_OF_RELEASE)]
    if answer.outcome == "planned":
        # without attention and convolutions there is nothing that cuDNN chooses
        has_cudnn = not answer.flags.keys().isdisjoint(("attention", CONVOLUTIONS))
        answer.not_held = list_not_held(case, cudnn_version, has_cudnn=has_cudnn)
        if RECURRENT in answer.flags:
            answer.not_held = [OF_RECURRENT, *answer.not_held]
    return answer


def list_not_held(case: Case, cudnn_version: str | None, has_cudnn: bool) -> list[str]:
    """Return what the GPU will need besides the simulated memory, as sentences.

    Args:
        case: The case that was simulated.
        cudnn_version: The cuDNN that was asked; None if none was.
        has_cudnn: Whether the step has operators whose workspaces cuDNN chooses.
    """
    by_cudnn, *not_held = NOT_HELD
    if has_cudnn:
        not_held.insert(0, by_cudnn.format(cudnn_version) if cudnn_version else WITHOUT_CUDNN)
    if case.ranks > 1:
        not_held.append(OF_COLLECTIVES)
    if case.strategy_spec.compiles:
        not_held.append(OF_COMPILED)
    return not_held


def simulate_case(case: Case, device: Device) -> PlannerAnswer:
    """Return outcome, reason and sizes. Raises any error that is not a user's file's fault."""
    obstacle = explain_missing_simulation(case)
    if obstacle:
        return refuse(case, device, obstacle)
    try:
        return simulate_or_refuse(case, device)
    except UnsupportedCompilation as error:
        return refuse(case, device, str(error))
    except SlowConvolution as error:
        return PlannerAnswer("not planned", str(error))
    except BoundedStep as error:
        least = run_case(case, device, chooses_all=False, waits_for_streams=False)
        most = run_case(case, device, chooses_all=True, waits_for_streams=True)
        has_one_answer = (least.allocated, least.reserved) == (most.allocated, most.reserved)
        if has_one_answer and most.reserved <= device.memory_bytes:
            return describe_simulation(case, most)  # what is chosen lies on the host, for instance
        answer = PlannerAnswer("not planned", str(error), flags=list_flags(case, most))
        add_bounds(answer, bound_by_extremes(least, most, error))
        return answer
    except Exception as error:
        if case.workload == USER_MODEL and find_line(error, case.user_file):
            return PlannerAnswer("failed", describe_fault(error, case.user_file))
        raise


def simulate_or_refuse(case: Case, device: Device) -> PlannerAnswer:
    """Return the sizes of a case, also if the device's memory is not enough for it.

    Raises the errors of the step, BoundedStep, UnsupportedCompilation and SlowConvolution.
    """
    try:
        return describe_simulation(case, run_case(case, device, is_limited=True))
    except OutOfMemory as error:
        requested = error.requested
    # what holds the memory that is not there is asked about most
    simulation = run_case(case, device)
    reason = (
        f"does not fit: the allocator would reserve {simulation.reserved / 2**30:.1f} GiB, and a "
        f"tensor of {requested:,} bytes was refused"
    )
    return replace(
        describe_simulation(case, simulation),
        outcome="refused",
        reason=reason,
        needs_bytes=simulation.reserved,
        peak_bytes=None,
    )


def run_case(case: Case, device: Device, is_limited: bool = False, **options: bool) -> Simulation:
    """Simulate the fullest rank of a case by the release that runs.

    Args:
        case: The case, whose strategies also set the allocator.
        device: The target device.
        is_limited: Whether to raise OutOfMemory if the device's memory is not enough.
        options: Of `simulate`.
    """
    if any(part.switch == "adamw_8bit_bnb" for part in case.parts):
        # once PyTorch answers as on a GPU, the import would look for one
        importlib.import_module("bitsandbytes")
    settings = make_settings(case, device)
    return simulate(
        make_step_builder(case),
        device,
        settings=settings if is_limited else replace(settings, limit=None),
        release=read_release(),
        rank=find_fullest_rank(case) if case.ranks > 1 else 0,
        ranks=case.ranks,
        **options,
    )


def describe_simulation(case: Case, simulation: Simulation) -> PlannerAnswer:
    """Return the sizes of a case that was simulated, and the lines that hold most at its peak."""
    parts = {
        "allocated": simulation.allocated,
        "reserved": simulation.reserved,
        "between_steps": simulation.between_steps,
    }
    for kind, size in simulation.kinds.items():
        parts[kind.replace(" ", "_")] = size
    largest = []
    for holder in simulation.holders[:MOST_BUFFERS]:
        line = f"{holder.line} ({holder.kind})"
        largest.append(LineBuffers(holder.bytes, line, holder.shape, holder.tensors))
    return PlannerAnswer(
        "planned",
        peak_bytes=simulation.reserved,
        parts=parts,
        largest=largest,
        compiler="PyTorch's caching allocator, modelled",
        flags=list_flags(case, simulation),
    )


def refuse(case: Case, device: Device, obstacle: str) -> PlannerAnswer:
    """Return why a case is not simulated, with what bounds its memory if a similar case can be."""
    answer = PlannerAnswer("not planned", obstacle)
    stand_in = find_stand_in(case)
    if stand_in is None or explain_missing_simulation(stand_in):
        return answer
    largest: Simulation | None = None
    try:
        simulation = run_case(stand_in, device)
        if not simulation.watch.convolutions:
            largest = simulation
        elif not simulation.watch.convolutions[False] and is_without_pool(case):
            largest = run_case(stand_in, device, largest_workspaces=True)
    except BoundedStep:
        return answer
    add_bounds(answer, bound_by(case, simulation, largest))
    return answer


def list_flags(case: Case, simulation: Simulation) -> dict[str, str]:
    """Return which attention kernels ran, and whether cuDNN gave the convolutions' workspaces.

    Of a user's file also the kind of prediction; other cases tell it by themselves.
    """
    flags = {}
    watch = simulation.watch
    attention = [name for name in watch.kernels if not name.endswith("backward")]
    if attention:
        flags["attention"] = ", ".join(sorted(attention))
    if watch.convolutions:
        flags[CONVOLUTIONS] = NOT_ASKED if watch.convolutions[False] else ASKED
    if watch.has_recurrent:
        flags[RECURRENT] = "step by step"
    if case.workload == USER_MODEL:
        flags[STEP_KIND] = simulation.kind
    return flags
