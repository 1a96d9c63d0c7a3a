"""The workspace of a convolution as cuDNN's own heuristics choose it, without a GPU.

Standard library only.

Since 9.8 cuDNN takes a GPU's description in the place of a handle: "Deviceless ahead-of-time
compilation" in its documentation. It is asked as PyTorch asks it (ATen/native/cudnn/Conv_v8.cpp):
first for the engines of the instant heuristics, then for fallbacks. The first engine that can be
planned is taken.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FOLDER_VARIABLE = "FRAMEBENCH_CUDNN"  # the folder `nvidia` of another environment's packages
OLDEST = 90800  # the first release that can be asked without a GPU
# libraries that cuDNN loads, as the wheels of CUDA 13 have them in the folder next to it
NEEDED = ("libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13")
INSTANT, FALLBACK = 0, 2  # modes of its heuristics
TENSOR_CORE, DOWN_CONVERT, NONDETERMINISTIC = 0, 1, 4  # notes of an engine on its numerics
# The numbers in this file are those of cudnn_graph.h, which are part of cuDNN's interface.
# Kinds of descriptors:
CONVOLUTION, ENGINE, CHOICE, HEURISTICS, PLAN, GRAPH, TENSOR, DEVICE = 1, 2, 3, 4, 5, 15, 17, 38
# Types of values:
DATA_TYPE, INT64, FLOAT, MODE, HEURISTIC, NOTE, DESCRIPTOR, CHAR = 1, 3, 4, 7, 8, 11, 15, 24
C_TYPES: dict[int, Any] = {  # of the types that are not here: c_int
    INT64: ctypes.c_int64,
    FLOAT: ctypes.c_float,
    DESCRIPTOR: ctypes.c_void_p,
    CHAR: ctypes.c_char,
}
# by kind of convolution: the number of its descriptor, and those of its attributes for alpha, beta,
# weight, x, y and the convolution
OPERATIONS = {
    "forward": (10, 700, 701, 703, 704, 705, 702),
    "data": (12, 706, 707, 709, 710, 711, 708),  # the gradient of the input
    "filter": (11, 712, 713, 715, 716, 717, 714),  # the gradient of the weight
}
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
ALIGNMENT = 32  # bytes: PyTorch tests for no more, and its allocator aligns by more

Attribute = tuple[int, int, Sequence[Any]]  # its number, the type of its values, and the values


class Operand(NamedTuple):
    """The shape of a tensor and its strides."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Convolution(NamedTuple):
    """A convolution that cuDNN is asked about."""

    kind: str  # of OPERATIONS
    dtype: str  # of TYPES
    x: Operand
    weight: Operand
    y: Operand
    padding: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    tf32: bool
    deterministic: bool


class Refused(RuntimeError):
    """cuDNN refuses a call, or has no engine for a convolution."""


@cache
def load_library() -> ctypes.CDLL | None:
    """Load this environment's cuDNN, or the one that FOLDER_VARIABLE names.

    Return None without cuDNN, or with a release that cannot be asked without a GPU.
    """
    spec = importlib.util.find_spec("nvidia")
    folders = list((spec and spec.submodule_search_locations) or ())
    if FOLDER_VARIABLE in os.environ:
        folders.append(os.environ[FOLDER_VARIABLE])
    for folder in folders:
        path = Path(folder, "cudnn/lib/libcudnn.so.9")
        if path.exists():
            for name in NEEDED:
                with contextlib.suppress(OSError):
                    ctypes.CDLL(str(Path(folder, "cu13/lib", name)), ctypes.RTLD_GLOBAL)
            cudnn = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
            cudnn.cudnnGetVersion.restype = ctypes.c_size_t
            return cudnn if cudnn.cudnnGetVersion() >= OLDEST else None
    return None


def read_version() -> str | None:
    """Return the release of cuDNN, such as 9.20.0, or None if it cannot be asked."""
    cudnn = load_library()
    if cudnn is None:
        return None
    number = int(cudnn.cudnnGetVersion())
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


@cache
def find_workspace_bytes(question: Convolution, gpu: str, largest: bool = False) -> int:
    """Return the bytes of a convolution's workspace on a GPU. Raises Refused.

    Args:
        question: The convolution.
        gpu: The GPU as cuDNN itself describes it, in JSON.
        largest: Whether to take the largest of all algorithms, in the place of the first. It is
            taken while they are measured (`generate_and_filter_plans` in
            ATen/native/cudnn/Conv_v8.cpp), and the fastest needs no more.
    """
    sizes = list_workspaces(question, gpu)
    size = max(sizes, default=None) if largest else next(sizes, None)
    if size is None:
        raise Refused(f"cuDNN has no engine for {question}")
    return size


def list_workspaces(question: Convolution, gpu: str) -> Iterator[int]:
    """Yield the bytes of the workspace of each algorithm, in the heuristics' order."""
    session = CudnnSession()
    try:
        device = session.make(DEVICE, (2702, CHAR, [*gpu.encode(), 0]))  # its description
        operation = make_operation(session, question)
        graph = session.make(GRAPH, (801, DESCRIPTOR, [operation]))  # its operations
        for choice in list_choices(session, graph, device):
            if is_allowed(session, choice, question):
                with contextlib.suppress(Refused):
                    plan = session.make(
                        PLAN,
                        (401, DESCRIPTOR, [choice]),  # the engine and its settings
                        (407, DESCRIPTOR, [device]),
                    )
                    size = (ctypes.c_int64 * 1)()
                    session.read(plan, 402, INT64, size)  # the bytes of its workspace
                    yield size[0]
    finally:
        session.end()


class CudnnSession:
    """The descriptors of one question, which are destroyed after it."""

    def __init__(self) -> None:
        """Load cuDNN, which must be installed."""
        cudnn = load_library()
        assert cudnn
        self.cudnn = cudnn
        self.descriptors: list[ctypes.c_void_p] = []

    def end(self) -> None:
        """Destroy all descriptors."""
        for descriptor in self.descriptors:
            self.cudnn.cudnnBackendDestroyDescriptor(descriptor)

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function of cuDNN's backend. Raises Refused."""
        status = getattr(self.cudnn, f"cudnnBackend{function}")(*arguments)
        if status:
            raise Refused(f"cuDNN answers {status}")

    def create(self, kind: int) -> int:
        """Return an empty descriptor. Raises Refused."""
        descriptor = ctypes.c_void_p()
        self.call("CreateDescriptor", kind, ctypes.byref(descriptor))
        self.descriptors.append(descriptor)
        return descriptor.value or 0

    def make(self, kind: int, *attributes: Attribute) -> int:
        """Return a finished descriptor. Raises Refused."""
        descriptor = ctypes.c_void_p(self.create(kind))
        for name, value_type, values in attributes:
            array = (C_TYPES.get(value_type, ctypes.c_int) * len(values))(*values)
            self.call(
                "SetAttribute", descriptor, name, value_type, ctypes.c_int64(len(values)), array
            )
        self.call("Finalize", descriptor)
        return descriptor.value or 0

    def read(self, descriptor: int, name: int, value_type: int, into: Any = None) -> int:
        """Read the values of an attribute into an array, and return their number. Raises Refused.

        As many are read as fit; without an array they are only counted.
        """
        count = ctypes.c_int64()
        capacity = ctypes.c_int64(0 if into is None else len(into))
        pointer = ctypes.c_void_p(descriptor)
        self.call("GetAttribute", pointer, name, value_type, capacity, ctypes.byref(count), into)
        return count.value


def make_operation(session: CudnnSession, question: Convolution) -> int:
    """Return the descriptor of the convolution with its operands. Raises Refused."""
    kind, alpha, beta, *numbers = OPERATIONS[question.kind]
    parts = []
    for identifier, operand in enumerate((question.weight, question.x, question.y), 1):
        tensor = session.make(
            TENSOR,
            (906, INT64, [identifier]),
            (901, DATA_TYPE, [TYPES[question.dtype]]),
            (902, INT64, operand.shape),
            (903, INT64, operand.strides),
            (900, INT64, [ALIGNMENT]),
        )
        parts.append(tensor)
    sum_type = "float64" if question.dtype == "float64" else "float32"
    convolution = session.make(
        CONVOLUTION,
        (100, DATA_TYPE, [TYPES[sum_type]]),
        (101, MODE, [1]),  # cross-correlation
        (102, INT64, question.dilation),
        (103, INT64, question.stride),
        (104, INT64, question.padding),  # behind
        (105, INT64, question.padding),  # before
        (106, INT64, [len(question.padding)]),  # the number of spatial dimensions
    )
    parts.append(convolution)
    attributes = [(number, DESCRIPTOR, [part]) for number, part in zip(numbers, parts)]
    return session.make(kind, (alpha, FLOAT, [1.0]), (beta, FLOAT, [0.0]), *attributes)


def list_choices(session: CudnnSession, graph: int, device: int) -> Iterator[int]:
    """Yield engines with their settings, in the heuristics' order."""
    for mode in (INSTANT, FALLBACK):
        with contextlib.suppress(Refused):
            heuristics = session.make(
                HEURISTICS,
                (201, DESCRIPTOR, [graph]),
                (200, HEURISTIC, [mode]),
                (204, DESCRIPTOR, [device]),
            )
            count = session.read(heuristics, 202, DESCRIPTOR)  # its results
            empty = [session.create(CHOICE) for _ in range(count)]
            choices = (ctypes.c_void_p * count)(*empty)
            count = session.read(heuristics, 202, DESCRIPTOR, choices)
            yield from (choice or 0 for choice in choices[:count])


def is_allowed(session: CudnnSession, choice: int, question: Convolution) -> bool:
    """Return whether PyTorch's `filterEngineConfigs` keeps a choice."""
    engine = (ctypes.c_void_p * 1)(session.create(ENGINE))
    session.read(choice, 300, DESCRIPTOR, engine)
    buffer = (ctypes.c_int * 32)()
    count = session.read(engine[0] or 0, 1303, NOTE, buffer)
    notes = buffer[:count]
    if DOWN_CONVERT in notes:
        return False
    if TENSOR_CORE in notes and question.dtype == "float32" and not question.tf32:
        return False
    return not (NONDETERMINISTIC in notes and question.deterministic)
