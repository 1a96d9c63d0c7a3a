"""The answer for the reader's device: measured on it, planned for it, or not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from framebench.claims.entries import Entry, Line, describe_numbers
from framebench.claims.plans import GPU
from framebench.claims.rule import DISAGREE, NOT_MEASURED, UNMET, summarize
from framebench.devices.catalog import BY_NAME

CPU = "cpu"
ON_EVERY_DEVICE = ("no such API", "listing does not run", "by definition")


class UnknownDevice(ValueError):
    """A text that no device's name begins with; the message lists those there are."""


@dataclass(frozen=True)
class Origin:
    """Where a number is from."""

    kind: Literal["measured", "planned", "cpu"]
    device: str = ""  # a GPU's name; empty of a CPU, and of the GPU that the claim's row is about

    @property
    def text(self) -> str:
        """Return `measured on nvidia-h200`, `planned for h100-80gb` or `on a CPU`."""
        if self.kind == "cpu":
            return "on a CPU"
        if self.kind == "planned":
            return f"planned for {self.device}"
        return f"measured on {self.device or 'this GPU'}"


ORDER = ("measured", "planned", "cpu")  # of the kinds in an answer


def find_device(text: str) -> str:
    """Return the name of a device, or the beginning of several: `a100-80gb`, `a100`.

    Raises UnknownDevice.
    """
    name = text.lower()
    if name == CPU or any(one.startswith(name) for one in BY_NAME):
        return name
    raise UnknownDevice(f"no device {text!r}; devices: {CPU}, {', '.join(BY_NAME)}")


def describe_for_device(entry: Entry, device: str) -> str:
    """Return the verdict for a device in a sentence, and what others say in its place.

    It says whether that was measured on the device, was planned for it, or is not known.
    """
    if entry.verdict in ON_EVERY_DEVICE:
        return f"On every device: {entry.judged}."
    lines_by_origin = group_by_origin(entry.lines)
    for origin, lines in lines_by_origin.items():
        if is_of_device(origin, device):
            return describe(origin, lines)
    if not lines_by_origin:
        unknown = entry.judged if entry.verdict in (UNMET, NOT_MEASURED) else "no measurement"
        return f"On {device}: not known: {unknown}."
    if entry.transfers_to_gpu:
        return (
            f"On {device}: {entry.judged}, {entry.measured} (not measured there, but it holds on "
            f"every device: {entry.why})."
        )
    others = " ".join(describe(origin, lines) for origin, lines in lines_by_origin.items())
    return f"On {device}: not known. {others}"


def group_by_origin(lines: Sequence[Line]) -> dict[Origin, list[Line]]:
    """Return the lines with a number that decide, or would on their device, by where it is from.

    What was measured on a GPU comes first, then plans, then a CPU.
    """
    groups: dict[Origin, list[Line]] = {}
    for line in lines:
        is_used = line.decides or line.set_aside
        if is_used and line.verdict != UNMET and line.value is not None:
            groups.setdefault(find_origin(line), []).append(line)
    ordered = sorted(groups, key=lambda origin: ORDER.index(origin.kind))
    return {origin: groups[origin] for origin in ordered}


def find_origin(line: Line) -> Origin:
    """Return where the number of a line is from."""
    if line.planned:
        return Origin("planned", GPU)
    if line.device == CPU:
        return Origin("cpu")
    return Origin("measured", line.other_machine)


def is_of_device(origin: Origin, device: str) -> bool:
    """Return whether a number is from a device, or from the same chip with other memory."""
    if device == CPU or origin.kind == "cpu":
        return device == CPU and origin.kind == "cpu"
    chip = device.partition("-")[0]
    return any(word.startswith(chip) for word in origin.device.lower().split("-"))


def describe(origin: Origin, lines: Sequence[Line]) -> str:
    """Return `Measured on nvidia-h200: confirmed, -38.9 % (-40.1 to -37.6).`"""
    counted = [replace(line, decides=True) for line in lines]
    verdict = summarize([line.verdict for line in counted])
    text = f"{origin.text[0].upper()}{origin.text[1:]}: {verdict}"
    if verdict in DISAGREE:
        kinds = dict.fromkeys(line.verdict for line in counted)  # each once
        text += f" ({' and '.join(kinds)})"
    return f"{text}, {describe_numbers(verdict, counted)}."
