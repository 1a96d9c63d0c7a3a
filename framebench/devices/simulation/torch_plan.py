"""What a PyTorch case needs on a GPU, in PyTorch's environment:
`python -m framebench.devices.simulation.torch_plan CASE DEVICE [FILE]`.

The adapter's own step is simulated (`torch_simulate`). The last line that is printed is a JSON object: fields of
`planned.Planned`. FILE gets the timeline, for https://pytorch.org/memory_viz.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from framebench.adapters.torch.fake import FakeOnDevice
from framebench.adapters.torch.quantized import beside
from framebench.devices.catalog import Device, find
from framebench.devices.simulation import cudnn
from framebench.devices.simulation.blocks import OutOfMemory, Settings
from framebench.devices.simulation.torch_convolutions import described
from framebench.devices.simulation.torch_device import replaced
from framebench.devices.simulation.torch_kernels import NOT_HELD, WITHOUT_CUDNN
from framebench.devices.simulation.torch_simulate import Simulation, simulate
from framebench.models.spec import OWN
from framebench.suite.case import Case
from framebench.suite.hypothetical import named
from framebench.suite.user_file import blamed, line_of

STEPS = 3
MOST = 12  # lines of the program, of those that hold memory at the peak
EAGER = "only eager execution is simulated: a compiler decides anew what is kept"
OUTSIDE = {  # by the switch
    "pool_off": "without its pool PyTorch asks the driver for each tensor, and the driver's rounding is its own",
    "malloc_async": "the driver's own pool decides, and it runs on the card alone",
    "autotune": "which algorithm is fastest, and so its workspace, is measured on the card",
    "offload_streamed": "when a copy on another stream is done, and its memory free, is decided on the card",
}


def obstacle(case: Case) -> str | None:
    """Why the case cannot be simulated, if it cannot."""
    axes = {part.axis: part.name for part in case.parts}
    if case.ranks > 1:
        return "of a case over ranks each is predicted without a device: framebench predict --ranks"
    if "execution" in axes or axes.get("pair", "").startswith("scripted"):
        return EAGER
    if "loading" in axes:
        return "the loader's threads and files are real"
    return next((OUTSIDE[part.how] for part in case.parts if part.how in OUTSIDE), None)


def settings_of(case: Case, device: Device) -> Settings:
    """Of the allocator, as strategies set them."""
    options = {part.how: part.options for part in case.parts}
    share = options["memory_fraction"].get("share", 0.8) if "memory_fraction" in options else 1
    return Settings(limit=int(device.memory_bytes * share), expandable_segments="expandable_segments" in options)


def step_of(case: Case) -> Callable[[torch.device], Callable[[], None]]:
    def make(where: torch.device) -> Callable[[], None]:
        adapter = FakeOnDevice(case, where)
        with offloading_allowed(adapter):
            adapter.build()

        def step() -> None:
            with updates_compiled(case):
                adapter.step()
            adapter.release()

        return step

    return make


def offloading_allowed(adapter: FakeOnDevice) -> AbstractContextManager[None]:
    """torchao's optimizer on the host asks which kinds of devices the machine has, and knows two."""
    if not any(part.how == "optimizer_offload" for part in adapter.case.parts):
        return nullcontext()
    return replaced(beside(adapter, "torchao.optim.cpu_offload"), "get_available_devices", lambda: ["cpu", "cuda"])


def updates_compiled(case: Case) -> AbstractContextManager[None]:
    """torchao compiles the update of each weight: its kernels write into weight and states, and what lies between stays in
    registers. So the update is not followed, its states are."""
    if not any(part.how == "adamw_8bit" for part in case.parts):
        return nullcontext()
    return replaced(torch, "compile", lambda *_, **__: lambda *_, **__: None)


def plan(case: Case, device: Device, timeline: Path | None = None) -> dict[str, Any]:
    """Fields of `planned.Planned`. `timeline`: a file for PyTorch's memory viewer."""
    told: dict[str, Any] = {"versions": {"torch": torch.__version__.partition("+")[0]}}
    if asked := asked_of(device):
        told["versions"]["cudnn"] = asked
    if why := obstacle(case):
        return told | {"outcome": "not planned", "reason": why}
    settings = settings_of(case, device)
    try:
        found = simulate(step_of(case), device, steps=STEPS, settings=settings)
        if timeline:
            found.snapshot(timeline)
        return told | _fields(found, asked)
    except OutOfMemory as error:
        whole = simulate(step_of(case), device, steps=STEPS, settings=Settings(None, settings.expandable_segments))
        reason = f"does not fit: needs {whole.reserved / 2**30:.1f} GiB, and a tensor of {error.requested:,} bytes was refused"
        return told | {"outcome": "refused", "reason": reason, "needs_bytes": whole.reserved}
    except Exception as error:
        if case.workload == OWN and line_of(error, case.user_file):
            return told | {"outcome": "failed", "reason": blamed(error, case.user_file)}
        raise


def asked_of(device: Device) -> str | None:
    """The release of cuDNN that is asked for this device's workspaces, if one is."""
    return cudnn.version() if described(device) else None


def _fields(found: Simulation, asked: str | None) -> dict[str, Any]:
    kinds = {kind.replace(" ", "_"): size for kind, size in found.kinds.items()}
    parts = {"allocated": found.allocated, "reserved": found.reserved, "between_steps": found.between_steps}
    largest = [
        {"bytes": one.bytes, "line": f"{one.line} ({one.kind})", "shape": one.shape, "count": one.tensors}
        for one in found.holders[:MOST]
    ]
    attention = ", ".join(sorted(name for name in found.kernels if not name.endswith("backward")))
    return {
        "outcome": "planned", "peak_bytes": found.reserved, "parts": parts | kinds, "largest": largest,
        "not_held": (NOT_HELD[0].format(asked) if asked else WITHOUT_CUDNN, *NOT_HELD[1:]),
        "compiler": "PyTorch's caching allocator, modelled", "flags": {"attention": attention} if attention else {},
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(plan(named(sys.argv[1]), find(sys.argv[2]), *map(Path, sys.argv[3:4]))))
