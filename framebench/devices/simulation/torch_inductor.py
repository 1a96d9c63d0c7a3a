"""Compile graphs by Inductor for the simulated GPU, and load its programs without their kernels.

Inductor needs no GPU: it reads a few properties of the device, decides what is fused and which
buffers there are, and writes a program that takes the buffers, runs the kernels and drops each
buffer after its last use. That program runs here on fake tensors, where each buffer is followed as
any other tensor. Its Triton kernels do nothing; matmuls, convolutions and attention are PyTorch's
own. Source: torch/_inductor of PyTorch 2.13.

The simulation leaves out what only a GPU can decide or do: matrices that are padded because that
was measured to be faster (fx_passes/pad_mm.py), kernels that are measured against each other in the
first step with a buffer as large as the L2 cache (runtime/benchmarking.py), and the loaded kernels,
which lie outside of the allocator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn
from unittest import mock

import torch
import torch.utils._triton
from torch import Tensor
from torch._dynamo import device_interface
from torch._inductor import async_compile, compile_fx, scheduler
from torch._inductor import utils as inductor_utils
from torch._inductor.codegen import common
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.fx_passes import joint_graph
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import DeviceProperties
from torch._prims import rng_prims
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map_only

from framebench.devices.simulation.torch_device import (
    NAME,
    Replacement,
    do_nothing,
    replace_attribute,
    replace_attributes,
    take_place_of_cuda,
)
from framebench.devices.simulation.torch_gpu import Gpu

SETTINGS = {  # of Inductor: nothing is cached, as the device is not here, and nothing is built
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
    "compile_threads": 1,
}


class SimulatedInterface(device_interface.DeviceInterface):
    """The simulated GPU as Dynamo and Inductor see it."""

    gpu: Gpu  # of the simulation that runs

    class Worker:
        """The interface of compiling processes to the GPU's properties; no such process runs."""

        @staticmethod
        def get_device_properties(_: Any = None) -> SimpleNamespace:
            return SimulatedInterface.gpu.properties

    set_device = synchronize = raise_if_triton_unavailable = staticmethod(do_nothing)

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def exchange_device(device: int) -> int:
        return device

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        return device

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return device_idx

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def get_compute_capability(_: Any = None) -> int:
        major, minor = SimulatedInterface.gpu.capability
        return 10 * major + minor

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return including_emulation or SimulatedInterface.gpu.capability >= (8, 0)

    @staticmethod
    def is_triton_capable(_: Any = None) -> bool:
        return SimulatedInterface.gpu.capability >= (7, 0)


class SimulatedOverrides(common.DeviceOpOverrides):
    """The lines by which a generated program selects its GPU and its stream."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"def {name}(index): return 0"

    def set_device(self, device_idx: int) -> str:
        return f"torch.{NAME}.set_device({device_idx})"

    def synchronize(self) -> str:
        return f"torch.{NAME}.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.{NAME}.device({device_idx})"


@cache
def register_device() -> None:
    """Make Dynamo and Inductor treat the simulated device as a GPU, for the rest of the process."""
    device_interface.register_interface_for_device(NAME, SimulatedInterface)
    common.register_backend_for_device(NAME, TritonScheduling, PythonWrapperCodegen)
    common.register_device_op_overrides(NAME, SimulatedOverrides())
    inductor_utils.GPU_TYPES.append(NAME)


def compile_for_gpu(gpu: Gpu) -> None:
    """Compile for this GPU from now on, and forget what was compiled before.

    Raises AttributeError if this release's Inductor lacks an attribute that `patch_inductor`
    replaces.
    """
    with patch_inductor():
        register_device()
    SimulatedInterface.gpu = gpu
    DeviceProperties.create.cache_clear()
    torch._dynamo.reset()


def compile_graph(
    graph: GraphModule, inputs: list[Any], options: dict[str, Any] | None = None
) -> Any:
    """Compile a graph that Dynamo traced: a backend of `torch.compile`.

    Args:
        graph: What Dynamo traced.
        inputs: Its inputs, as fake tensors.
        options: Settings of Inductor that the program gives to `torch.compile`.
    """
    settings = {name.replace("-", "_"): value for name, value in (options or {}).items()}
    rename_devices(graph)
    with _disable_current_modes(), patch_inductor():
        return compile_fx.compile_fx(
            graph, inputs, inner_compile=compile_inner, config_patches=settings | SETTINGS
        )


def rename_devices(graph: GraphModule) -> None:
    """Let a graph name the simulated device where the program names CUDA's."""
    for node in graph.graph.nodes:
        node.args = tree_map_only(torch.device, take_place_of_cuda, node.args)
        node.kwargs = tree_map_only(torch.device, take_place_of_cuda, node.kwargs)
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": take_place_of_cuda(node.kwargs["device"])}
        if node.op == "call_method" and node.target == "to":
            node.args = tuple(map(take_place_of_cuda, node.args))
    graph.recompile()


def compile_inner(graph: GraphModule, inputs: list[Any], **options: Any) -> Any:
    """Compile a forward or a backward pass, and return its program.

    A backward pass is compiled when it runs first.
    """
    programs: list[ModuleType] = []

    def keep_program(lowered: GraphLowering) -> ModuleType:
        programs.append(load_program(lowered.codegen()[0].value))
        return programs[-1]

    with (
        _disable_current_modes(),
        patch_inductor(),
        replace_attribute(GraphLowering, "compile_to_module", keep_program),
    ):
        compiled = compile_fx.compile_fx_inner(graph, inputs, **options)
    if not programs:  # the graph computes nothing
        return compiled
    # not `compiled`, which first reads the addresses of its inputs
    call: Any = programs[0].call

    def run(arguments: list[Any]) -> Any:
        return call(arguments)

    run._boxed_call = True  # type: ignore[attr-defined]  # it takes a list, and empties it
    return run


@contextmanager
def patch_inductor() -> Iterator[None]:
    """Let Inductor work without Triton, and decide as for CUDA, in this context."""
    # Patterns are the same for every device. They are traced on the CPU, since autograd on the
    # simulated device would need the simulation's modes.
    trace_patterns = partial(joint_graph.lazy_init, torch.device("cpu"))
    replacements: list[Replacement] = [
        (scheduler, "has_triton", lambda *_: True),
        (scheduler, "_is_gpu_triton_backend", are_both_on_gpu),
        (torch.utils._triton, "triton_hash_with_backend", lambda: "none"),
        (joint_graph, "lazy_init", lambda *_: trace_patterns()),
        (joint_graph, "UniformValueConstantFolder", ConstantFolderOnHost),
        # Inductor takes one kind of GPU: the simulated device, whose properties it reads there
        (torch.cuda, "is_available", lambda: False),
        (torch.cuda, "get_device_properties", refuse_properties),
        (rng_prims, "get_device", lambda *_: "cpu"),  # where the state of random numbers lies
    ]
    with replace_attributes(replacements):
        yield


def refuse_properties(_: Any = None) -> NoReturn:
    """Raise AssertionError, as a PyTorch without CUDA does, and Inductor expects."""
    raise AssertionError("Torch not compiled with CUDA enabled")


def are_both_on_gpu(first: Any, second: Any) -> bool:
    """Return whether kernels of both nodes are Triton's (`_is_gpu_triton_backend`)."""
    return bool(first.is_gpu() and second.is_gpu())


class ConstantsOnHost(TorchDispatchMode):
    """Make a compiler's tensors on the host, where it can compute with their numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == NAME:
            kwargs = kwargs | {"device": torch.device("cpu")}
        return func(*args, **kwargs)


class ConstantFolderOnHost(joint_graph.UniformValueConstantFolder):  # type: ignore[misc]
    """Compute constants of a graph on the host, as there is no GPU to do it."""

    def _deduce_value(self, node: Node) -> Any:
        with ConstantsOnHost():
            return super()._deduce_value(node)

    def _add_peephole_patterns(self) -> None:
        with ConstantsOnHost():
            super()._add_peephole_patterns()


class NoKernel:
    """A kernel that does nothing."""

    run = __call__ = do_nothing


class NoKernels:
    """Take the place of `AsyncCompile`, which builds the kernels of a program."""

    wait = do_nothing

    def triton(self, *_: Any, **__: Any) -> NoKernel:
        return NoKernel()

    def __getattr__(self, kind: str) -> Callable[..., NoKernel]:
        return self.triton


def load_program(source: str) -> ModuleType:
    """Return the module of a program that Inductor wrote, with kernels that do nothing."""
    program = ModuleType("inductor_program")
    triton = ModuleType("triton")  # programs import it, and it need not be installed
    triton.language = ModuleType("triton.language")  # type: ignore[attr-defined]
    stubs = {"triton": triton, "triton.language": triton.language}
    with (
        mock.patch.dict(sys.modules, stubs),
        replace_attribute(async_compile, "AsyncCompile", NoKernels),
    ):
        code = compile(source, "<inductor>", "exec")
        exec(code, vars(program))  # noqa: S102 - Inductor has just written it in memory
    program.__dict__.update(
        reinterpret_tensor=reinterpret_tensor,
        # these read addresses, which fake tensors do not have
        copy_if_misaligned=return_first,
        assert_alignment=do_nothing,
        assert_size_stride=do_nothing,
    )
    return program


def reinterpret_tensor(tensor: Tensor, size: Any, stride: Any, offset: int = 0) -> Tensor:
    """Return another view of a buffer."""
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


def return_first(tensor: Tensor, *_: Any) -> Tensor:
    """Return the tensor itself."""
    return tensor
