"""The answer for the reader's device: measured on it, planned for it, or not known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from framebench.claims.entries import Entry, Line, describe_numbers
from framebench.claims.plans import GPU
from framebench.claims.rule import DISAGREE, NOT_MEASURED, UNMET, summarize
from framebench.devices.catalog import BY_NAME

CPU = "cpu"
ON_EVERY_DEVICE = ("no such API", "listing does not run", "by definition")


class UnknownDevice(ValueError):
    """A text that no device's name begins with; the message lists those there are."""


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
    places = group_by_origin(entry.lines)
    for place, lines in places.items():
        if is_of_device(place, device):
            return describe(place, lines)
    if not places:
        unknown = entry.judged if entry.verdict in (UNMET, NOT_MEASURED) else "no measurement"
        return f"On {device}: not known: {unknown}."
    if entry.transfers_to_gpu:
        return (
            f"On {device}: {entry.judged}, {entry.measured} (not measured there, but it holds on "
            f"every device: {entry.why})."
        )
    others = " ".join(describe(place, lines) for place, lines in places.items())
    return f"On {device}: not known. {others}"


def group_by_origin(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the lines with a number that decide, or would on their device, by where it is from.

    What was measured on a GPU comes first, then plans, then a CPU.
    """
    places: dict[str, list[Line]] = {}
    for line in lines:
        is_used = line.decides or line.set_aside
        if is_used and line.verdict != UNMET and line.value is not None:
            places.setdefault(name_origin(line), []).append(line)
    ranks = {"measured": 0, "planned": 1, "on": 2}
    ordered = sorted(places, key=lambda place: ranks[place.split()[0]])
    return {place: places[place] for place in ordered}


def name_origin(line: Line) -> str:
    """Return `measured on nvidia-h200`, `planned for h100-80gb` or `on a CPU`."""
    if line.planned:
        return f"planned for {GPU}"
    if line.device == CPU:
        return "on a CPU"
    return f"measured on {line.other_machine or 'this GPU'}"


def is_of_device(place: str, device: str) -> bool:
    """Return whether a place is the device that somebody asks about."""
    if CPU in (device, place.split()[-1].lower()):
        return device == CPU and place == "on a CPU"
    chip = device.partition("-")[0]
    return any(word.startswith(chip) for word in re.split("[ -]", place.lower()))


def describe(place: str, lines: Sequence[Line]) -> str:
    """Return `Measured on nvidia-h200: confirmed, -38.9 % (-40.1 to -37.6).`"""
    counted = [replace(line, decides=True) for line in lines]
    verdict = summarize([line.verdict for line in counted])
    text = f"{place[0].upper()}{place[1:]}: {verdict}"
    if verdict in DISAGREE:
        kinds = dict.fromkeys(line.verdict for line in counted)  # each once
        text += f" ({' and '.join(kinds)})"
    return f"{text}, {describe_numbers(verdict, counted)}."
