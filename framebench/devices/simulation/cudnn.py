"""The workspace of a convolution as cuDNN's own heuristics choose it, without a card. Standard library only.

Since 9.8 cuDNN takes a card's description in the place of a handle: "Deviceless ahead-of-time compilation" in its
documentation. It is asked as PyTorch asks it (ATen/native/cudnn/Conv_v8.cpp): for what the heuristics choose at once, then for
fallbacks; and the first that can be planned is taken.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

OLDEST = 90800  # that can be asked without a card
NEEDED = (
    "libcudart.so.13",
    "libcublasLt.so.13",
    "libcublas.so.13",
)  # as wheels lay them beside it; other toolkits' are not known
INSTANT, FALLBACK = 0, 2  # modes of its heuristics
TENSOR_CORE, DOWN_CONVERT, NONDETERMINISTIC = 0, 1, 4  # what an engine may note of its numbers
# Numbers of cudnn_graph.h, which are part of its interface: kinds of descriptors, then types of values
CONVOLUTION, ENGINE, CHOICE, HEURISTICS, PLAN, GRAPH, TENSOR, CARD = 1, 2, 3, 4, 5, 15, 17, 38
DATA_TYPE, INT64, FLOAT, MODE, HEURISTIC, NOTE, DESCRIPTOR, CHAR = 1, 3, 4, 7, 8, 11, 15, 24
NUMBERS: dict[int, Any] = {INT64: ctypes.c_int64, FLOAT: ctypes.c_float, DESCRIPTOR: ctypes.c_void_p, CHAR: ctypes.c_char}
OPERATIONS = {  # its descriptor, and its attributes for alpha, beta, weight, x, y and the convolution
    "forward": (10, 700, 701, 703, 704, 705, 702),
    "data": (12, 706, 707, 709, 710, 711, 708),  # the gradient of the input
    "filter": (11, 712, 713, 715, 716, 717, 714),  # that of the weight
}
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
ALIGNED = 32  # bytes: PyTorch looks no further, and its allocator aligns by more

Attribute = tuple[int, int, Sequence[Any]]  # its number, the type of its values, and these


class Operand(NamedTuple):
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Convolution(NamedTuple):
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
    """cuDNN's answer to a call, or that it has no engine for a convolution."""


@cache
def library() -> ctypes.CDLL | None:
    """That of this environment; None where there is none, or one that cannot be asked without a card."""
    spec = importlib.util.find_spec("nvidia")
    for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
        if (found := folder / "cudnn/lib/libcudnn.so.9").exists():
            for name in NEEDED:
                with contextlib.suppress(OSError):
                    ctypes.CDLL(str(folder / "cu13/lib" / name), ctypes.RTLD_GLOBAL)
            loaded = ctypes.CDLL(str(found), ctypes.RTLD_GLOBAL)
            loaded.cudnnGetVersion.restype = ctypes.c_size_t
            return loaded if loaded.cudnnGetVersion() >= OLDEST else None
    return None


def version() -> str | None:
    """Such as 9.20.0."""
    if not (loaded := library()):
        return None
    number = int(loaded.cudnnGetVersion())
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


@cache
def workspace(asked: Convolution, card: str) -> int:
    """Bytes, on a card that is described as cuDNN writes it down. Raises Refused."""
    session = Session()
    try:
        described = session.make(CARD, (2702, CHAR, [*card.encode(), 0]))
        graph = session.make(GRAPH, (801, DESCRIPTOR, [_operation(session, asked)]))
        for choice in _choices(session, graph, described):
            if _allowed(session, choice, asked):
                with contextlib.suppress(Refused):
                    plan = session.make(PLAN, (401, DESCRIPTOR, [choice]), (407, DESCRIPTOR, [described]))
                    return int(session.read(plan, 402, INT64, (ctypes.c_int64 * 1)())[0])
    finally:
        session.end()
    raise Refused(f"cuDNN has no engine for {asked}")


class Session:
    """The descriptors of one question, which end with it."""

    def __init__(self) -> None:
        loaded = library()
        assert loaded
        self.loaded = loaded
        self.made: list[int] = []

    def end(self) -> None:
        for descriptor in self.made:
            self.loaded.cudnnBackendDestroyDescriptor(ctypes.c_void_p(descriptor))

    def create(self, kind: int) -> int:
        made = ctypes.c_void_p()
        _accept(self.loaded.cudnnBackendCreateDescriptor(kind, ctypes.byref(made)))
        self.made.append(made.value or 0)
        return self.made[-1]

    def make(self, kind: int, *attributes: Attribute) -> int:
        """A finished descriptor. Raises Refused."""
        made = self.create(kind)
        for name, of, values in attributes:
            array = (NUMBERS.get(of, ctypes.c_int) * len(values))(*values)
            count = ctypes.c_int64(len(values))
            _accept(self.loaded.cudnnBackendSetAttribute(ctypes.c_void_p(made), name, of, count, array))
        _accept(self.loaded.cudnnBackendFinalize(ctypes.c_void_p(made)))
        return made

    def read(self, descriptor: int, name: int, of: int, into: Any) -> list[Any]:
        """The values of an attribute, as many as there is room for."""
        count = ctypes.c_int64()
        most = ctypes.c_int64(len(into))
        _accept(self.loaded.cudnnBackendGetAttribute(ctypes.c_void_p(descriptor), name, of, most, ctypes.byref(count), into))
        return list(into[: count.value])

    def count(self, descriptor: int, name: int, of: int) -> int:
        found = ctypes.c_int64()
        none = ctypes.c_int64(0)
        _accept(self.loaded.cudnnBackendGetAttribute(ctypes.c_void_p(descriptor), name, of, none, ctypes.byref(found), None))
        return found.value


def _accept(status: int) -> None:
    if status:
        raise Refused(f"cuDNN answers {status}")


def _operation(session: Session, asked: Convolution) -> int:
    kind, alpha, beta, *places = OPERATIONS[asked.kind]
    operands = [
        session.make(
            TENSOR, (906, INT64, [number]), (901, DATA_TYPE, [TYPES[asked.dtype]]), (902, INT64, operand.shape),
            (903, INT64, operand.strides), (900, INT64, [ALIGNED]),
        )
        for number, operand in enumerate((asked.weight, asked.x, asked.y), 1)
    ]  # fmt: skip
    sums = TYPES["float64" if asked.dtype == "float64" else "float32"]
    convolution = session.make(
        CONVOLUTION, (100, DATA_TYPE, [sums]), (101, MODE, [1]), (102, INT64, asked.dilation), (103, INT64, asked.stride),
        (104, INT64, asked.padding), (105, INT64, asked.padding), (106, INT64, [len(asked.padding)]),
    )  # fmt: skip
    parts = [(place, DESCRIPTOR, [part]) for place, part in zip(places, (*operands, convolution))]
    return session.make(kind, (alpha, FLOAT, [1.0]), (beta, FLOAT, [0.0]), *parts)


def _choices(session: Session, graph: int, card: int) -> Iterator[int]:
    """Engines with their settings, in the heuristics' order."""
    for mode in (INSTANT, FALLBACK):
        with contextlib.suppress(Refused):
            found = session.make(HEURISTICS, (201, DESCRIPTOR, [graph]), (200, HEURISTIC, [mode]), (204, DESCRIPTOR, [card]))
            room = [session.create(CHOICE) for _ in range(session.count(found, 202, DESCRIPTOR))]
            yield from session.read(found, 202, DESCRIPTOR, (ctypes.c_void_p * len(room))(*room))


def _allowed(session: Session, choice: int, asked: Convolution) -> bool:
    """What PyTorch's `filterEngineConfigs` leaves."""
    (engine,) = session.read(choice, 300, DESCRIPTOR, (ctypes.c_void_p * 1)(session.create(ENGINE)))
    notes = set(session.read(engine, 1303, NOTE, (ctypes.c_int * 32)()))
    exact = asked.dtype == "float32" and not asked.tf32
    refused = {DOWN_CONVERT} | ({TENSOR_CORE} if exact else set()) | ({NONDETERMINISTIC} if asked.deterministic else set())
    return not notes & refused
