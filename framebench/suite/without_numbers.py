"""What goes wrong in a user's file when its step runs on tensors without numbers, for a device that is not here, in a reader's
words: PyTorch's own speak of its fake tensors. Standard library only."""

from __future__ import annotations

import re
from types import FrameType

NUMBERLESS = {"DataDependentOutputException", "DynamicOutputShapeException"}
NUMPY = re.compile(r"\.numpy\(\) is not supported for tensor subclasses|Can't call numpy\(\) on Tensor")
MIXED = re.compile(r"(at least|found) two (different )?devices")
PRESENT = "cpu"


def in_words(error: BaseException, frame: FrameType | None) -> str:
    """`frame`: of the user's file, where the error came from."""
    name, message = type(error).__name__, str(error)
    if name in NUMBERLESS or NUMPY.search(message):
        return "the numbers in a tensor are asked for here: for a device that is not here tensors have shapes and no numbers"
    if MIXED.search(message):
        there, here = placed(frame)
        which = f"{listed(here)} on the CPU and {listed(there)} on the card" if here and there else "some on the CPU"
        made = f"device={there[0]}.device" if there else "the device of the inputs"
        return f"tensors lie on two devices, {which}: on a card this step fails, too. Make them with {made}"
    return f"{name}: {message.replace('FakeTensor', 'Tensor')[:500]}"


def placed(frame: FrameType | None) -> tuple[list[str], list[str]]:
    """The names of the frame's own tensors that lie on a card, and on the CPU."""
    local = frame.f_locals if frame else {}
    where = {name: str(kind) for name, one in local.items() if (kind := getattr(getattr(one, "device", None), "type", None))}
    return [n for n, kind in where.items() if kind != PRESENT], [n for n, kind in where.items() if kind == PRESENT]


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
