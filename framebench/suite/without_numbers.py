"""Describe what goes wrong in a user's file when its step runs on fake tensors.

Fake tensors have shapes and no numbers; they stand in for tensors on a target device. PyTorch's own
messages speak of them, and readers have not heard of them. Standard library only.
"""

from __future__ import annotations

import re
from types import FrameType

NUMBERLESS = {"DataDependentOutputException", "DynamicOutputShapeException"}
NUMPY = re.compile(
    r"\.numpy\(\) is not supported for tensor subclasses|Can't call numpy\(\) on Tensor"
)
MIXED = re.compile(r"(at least|found) two (different )?devices")
PRESENT = "cpu"
LONGEST = 500  # letters of a message


def describe_error(error: BaseException, frame: FrameType | None) -> str:
    """Return an error's message in a reader's words.

    `frame` is the one of the user's file where the error came from.
    """
    name = type(error).__name__
    message = str(error)
    if name in NUMBERLESS or NUMPY.search(message):
        return (
            "the values of a tensor are read here: for a target device tensors are fake, "
            "with shapes and no values"
        )
    if MIXED.search(message):
        return describe_mixed_devices(frame)
    return f"{name}: {message.replace('FakeTensor', 'Tensor')[:LONGEST]}"


def describe_mixed_devices(frame: FrameType | None) -> str:
    """Return which local tensors lie on the CPU, which on the GPU, and how to make them."""
    devices = find_devices(frame)
    on_gpu = [name for name, device in devices.items() if device != PRESENT]
    on_cpu = [name for name, device in devices.items() if device == PRESENT]
    if on_gpu and on_cpu:
        which = f"{quote_names(on_cpu)} on the CPU and {quote_names(on_gpu)} on the GPU"
    else:
        which = "some on the CPU"
    device = f"device={on_gpu[0]}.device" if on_gpu else "the device of the inputs"
    return (
        f"tensors lie on two devices, {which}: on a GPU this step fails, too. "
        f"Make them with {device}"
    )


def find_devices(frame: FrameType | None) -> dict[str, str]:
    """Return the type of device of each of the frame's own tensors, by its name."""
    if frame is None:
        return {}
    devices = {}
    for name, value in frame.f_locals.items():
        kind = getattr(getattr(value, "device", None), "type", None)
        if kind:
            devices[name] = str(kind)
    return devices


def quote_names(names: list[str]) -> str:
    """Return the names in backticks, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)
