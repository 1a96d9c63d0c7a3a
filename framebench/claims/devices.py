"""Word the answer for the reader's device: measured on it, planned for it, or not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framebench.claims.ledger import Entry
from framebench.claims.lines import Line
from framebench.claims.plans import GPU
from framebench.claims.rule import DISAGREE, NOT_MEASURED, UNMET, summarize
from framebench.claims.wording import select_summarized, summarize_numbers
from framebench.devices.catalog import BY_NAME, UnknownDevice
from framebench.suite.sequences import drop_duplicates, group_by

CPU = "cpu"
MOST_SIMILAR = 3  # numbers of a device in an answer that has no verdict for it
# verdicts that need no measurement on the device
ON_EVERY_DEVICE = ("no such API", "listing does not run", "by definition")


def find_device(text: str) -> str:
    """Return the text in lower case if a device's name begins with it: `a100-80gb`, `a100`.

    Raises UnknownDevice, with the names that there are.
    """
    name = text.lower()
    if name == CPU or any(device.startswith(name) for device in BY_NAME):
        return name
    raise UnknownDevice(f"no device {text!r}; devices: {CPU}, {', '.join(BY_NAME)}")


def describe_for_device(entry: Entry, device: str) -> str:
    """Return the verdict for a device, or the verdicts for other devices if it has none.

    The text says whether the verdict was measured on the device, was planned for it, or is not
    known.
    """
    if entry.verdict in ON_EVERY_DEVICE:
        return f"On every device: {entry.judged}."
    # measurements on a GPU come first, then plans, then measurements on a CPU
    lines = sorted(select_usable(entry), key=lambda line: (line.device == CPU, line.planned))
    groups = list(group_by(lines, describe_source).values())
    for group in groups:
        if is_of_device(group[0], device):
            return describe_verdict_of_source(group)
    if not groups:
        reason = entry.judged if entry.verdict in (UNMET, NOT_MEASURED) else "no measurement"
        return f"On {device}: not known: {reason}."
    if entry.transfers_to_gpu:
        return (
            f"On {device}: {entry.judged}; {entry.numbers} (not measured there; it should hold "
            f"on every device: {entry.why})."
        )
    of_device = [line for line in entry.lines if is_of_device(line, device)]
    similar = list_similar(entry, [line for line in of_device if line.verdict != UNMET])
    verdict = f"no verdict. Similar there: {similar}." if similar else "not known."
    return f"On {device}: {verdict} {' '.join(map(describe_verdict_of_source, groups))}"


def describe_for_subject(entry: Entry, subject: str, device: str) -> str:
    """Return the verdict on one model or framework, by each source of its numbers.

    A source of the `device` comes first, "" if none is named. Then a GPU's measurements come before
    plans, and these before a CPU's.
    """
    lines = [line for line in select_usable(entry) if subject in line.subjects]
    if not lines:
        similar = list_similar(entry, [line for line in entry.lines if subject in line.subjects])
        if not similar:
            return f"{subject}: no number of this claim is of it."
        return f"{subject}: no verdict. Similar: {similar}."
    lines.sort(
        key=lambda line: (
            bool(device) and not is_of_device(line, device),
            line.device == CPU,
            line.planned,
        )
    )
    groups = group_by(lines, describe_source).values()
    return f"{subject}: {' '.join(map(describe_verdict_of_source, groups))}"


def list_similar(entry: Entry, lines: Sequence[Line]) -> str:
    """Return those of some numbers beside a claim that are of the quantity it is about.

    An example is `resnet50/torch bfloat16 b8/cpu -5.1 % (-6.2 to -4.1)`, of a claim about float16.
    """
    metrics = {line.metric for line in select_usable(entry)}
    numbers = []
    for line in lines:
        if line.value is not None and line.metric in metrics:
            numbers.append(f"{line.name} {line.measured}")
    return "; ".join(numbers[:MOST_SIMILAR])


def select_usable(entry: Entry) -> list[Line]:
    """Return the lines of a claim with a number that decides it, at least for some device."""
    usable = []
    for line in entry.lines:
        may_decide = line.decides or line.set_aside
        if may_decide and line.verdict != UNMET and line.value is not None:
            usable.append(line)
    return usable


def has_gpu_verdict(entry: Entry, device: str) -> bool:
    """Return whether a claim's verdict for a GPU rests on numbers of that GPU."""
    if device == CPU or entry.verdict in ON_EVERY_DEVICE:
        return False
    return any(is_of_device(line, device) for line in select_usable(entry))


def let_device_decide(lines: Sequence[Line], device: str) -> list[Line]:
    """Return the lines so that only those of a device decide; unchanged if it has none of them.

    `describe_for_device` summarizes the same lines.
    """
    candidates = [line for line in lines if line.decides or line.set_aside]
    if not any(is_of_device(line, device) for line in candidates):
        return list(lines)
    for_device = []
    for line in lines:
        if line.decides or line.set_aside:
            decides = is_of_device(line, device)
            line = replace(line, decides=decides, set_aside=not decides)
        for_device.append(line)
    return for_device


def describe_source(line: Line) -> str:
    """Return `Measured on nvidia-h200`, `Planned for h100-80gb` or `On a CPU`."""
    if line.planned:
        return f"Planned for {GPU}"
    if line.device == CPU:
        return "On a CPU"
    return f"Measured on {line.other_machine or 'this GPU'}"


def is_of_device(line: Line, device: str) -> bool:
    """Return whether a number is from a device, or from the same chip with other memory."""
    if device == CPU or line.device == CPU:
        return device == line.device
    chip = device.partition("-")[0]
    # the name of another machine has its GPU; a GPU of this machine has no name
    measured_on = GPU if line.planned else line.other_machine
    return any(word.startswith(chip) for word in measured_on.lower().split("-"))


def describe_verdict_of_source(lines: Sequence[Line]) -> str:
    """Return a sentence with the verdict and the numbers of the lines of one source.

    An example is `Measured on nvidia-h200: confirmed, -38.9 % (-40.1 to -37.6).` Verdicts that
    disagree follow in brackets, as in `mixed (confirmed and opposite)`.
    """
    verdict = summarize([line.verdict for line in lines])
    text = f"{describe_source(lines[0])}: {verdict}"
    if verdict in DISAGREE:
        verdicts = drop_duplicates(line.verdict for line in lines)
        text += f" ({' and '.join(verdicts)})"
    numbers = summarize_numbers(verdict, select_summarized(verdict, lines))
    return f"{text}, {numbers}."
