"""Say what a compiled program's memory is for, by the line of source that asks for it.

This is read from the texts that XLA dumps. Buffers that are never alive together lie in one place,
and the largest of them stands for that place.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from framebench.adapters.jax.hlo import HloBuffer, Instruction, parse_assignment, parse_instructions
from framebench.devices.plans.answer import LineBuffers

MOST_HOLDERS = 12
LIBRARY = "site-packages"
TABLE = re.compile(r"^(FileNames|FileLocations|StackFrames)\n((?:\d+ .*\n)+)", re.M)
ENTRY = re.compile(r"^(\d+) (.*)$", re.M)


class Placed(NamedTuple):
    """A buffer that holds one part of one instruction's result."""

    instruction: str
    part: str
    buffer: HloBuffer


def list_largest_holders(folder: Path) -> list[LineBuffers]:
    """Return the MOST_HOLDERS lines that hold most memory, most bytes first.

    The list is empty if XLA dumped nothing into the folder.
    """
    program = next(folder.glob("*after_optimizations.txt"), None)
    plan = next(folder.glob("*after_optimizations-buffer-assignment.txt"), None)
    if program is None or plan is None:
        return []
    text = program.read_text()
    computations, _ = parse_instructions(text)
    by_name: dict[str, Instruction] = {}
    for instructions in computations.values():
        by_name |= {instruction.name: instruction for instruction in instructions}
    sources = Sources(text, computations)
    buffers, _ = parse_assignment(plan.read_text(), loops=True)
    groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for placed in choose_disjoint(buffers, by_name):
        instruction = by_name.get(placed.instruction)
        if instruction:
            shape = find_shape(instruction, placed.part)
            groups[sources.describe(instruction), shape].append(placed.buffer.size)
    holders = []
    for (line, shape), sizes in groups.items():
        holders.append(LineBuffers(sum(sizes), line, shape, len(sizes)))
    holders.sort(key=lambda holder: -holder.bytes)
    return holders[:MOST_HOLDERS]


def find_shape(instruction: Instruction, part: str) -> str:
    """Return type and shape of a part of an instruction's result, such as `f32[8,128]`.

    `part` begins with its number in a tuple of results. For arguments, which have many shapes, the
    text is empty.
    """
    if instruction.opcode == "parameter":
        return ""
    shapes: list[str] = re.findall(r"\w+\[[\d,]*\]", instruction.result)
    number = int(part.partition(",")[0] or 0)
    return shapes[number] if number < len(shapes) else ""


def choose_disjoint(
    buffers: dict[str, dict[str, HloBuffer]], by_name: dict[str, Instruction]
) -> list[Placed]:
    """Return the largest buffers that do not overlap: together they fit into what is reserved.

    Args:
        buffers: By instruction, then by the part of its result.
        by_name: The program's instructions.
    """
    arguments: list[Placed] = []
    results: list[Placed] = []
    for name, parts in buffers.items():
        instruction = by_name.get(name)
        is_argument = instruction is not None and instruction.opcode == "parameter"
        for part, buffer in parts.items():
            (arguments if is_argument else results).append(Placed(name, part, buffer))
    # Arguments come first, and sorting keeps the order of equal sizes: of an argument and the
    # result that is written over it, the argument is chosen.
    candidates = sorted(arguments + results, key=lambda placed: placed.buffer.size, reverse=True)
    chosen: list[Placed] = []
    chosen_of_allocation: defaultdict[int, list[HloBuffer]] = defaultdict(list)
    for placed in candidates:
        allocation, _ = placed.buffer.place
        others = chosen_of_allocation[allocation]
        if not any(placed.buffer.overlaps(other) for other in others):
            others.append(placed.buffer)
            chosen.append(placed)
    return chosen


class Sources:
    """The lines of the source that instructions come from.

    The lines are read from the tables of files, places and callers before the instructions of a
    program's text. Older releases of XLA write file and line with each instruction instead.
    """

    def __init__(self, text: str, computations: dict[str, list[Instruction]]) -> None:
        """Read the tables of files, places and stack frames from the program's text."""
        self.computations = computations
        tables = {name: dict(ENTRY.findall(rows)) for name, rows in TABLE.findall(text)}
        self.files = tables.get("FileNames", {})
        self.places = tables.get("FileLocations", {})
        self.frames = tables.get("StackFrames", {})
        # a text counts callers from 1, or else from 0 with 1 for no caller
        self.shift = parse_row(self.frames.get("1", "")).get("parent_frame_id", 0)

    def describe(self, instruction: Instruction) -> str:
        """Return the line of the source that an instruction comes from.

        An example is `models/transformer/flax_model.py:57`: the innermost line outside of
        libraries. For a fusion it is the line of its last operation that has one. An argument is
        named by its tree instead, and an instruction without a line by the compiler's name for it.
        """
        if instruction.opcode == "parameter":
            tree = re.match(r"\w+", instruction.op_name)
            if tree:
                return f"argument {tree[0]}"
        fused = []
        for called in instruction.list_called("calls"):
            fused += self.computations.get(called, [])
        for candidate in (instruction, *reversed(fused)):
            line = self.find_line(candidate.attributes)
            if line:
                return line
        return instruction.op_name or f"(compiler) {instruction.opcode}"

    def find_line(self, attributes: str) -> str:
        """Return the line of an instruction itself, or "" if all its lines are in libraries."""
        old = re.search(r'source_file="([^"]*)" source_line=(\d+)', attributes)
        if old:
            return "" if LIBRARY in old[1] else f"{shorten(old[1])}:{old[2]}"
        number = re.search(r"stack_frame_id=(\d+)", attributes)
        key = number[1] if number else ""
        while key in self.frames:
            frame = parse_row(self.frames[key])
            place = parse_row(self.places.get(str(frame["file_location_id"]), ""))
            file = self.files.get(str(place.get("file_name_id")), LIBRARY).strip('"')
            if LIBRARY not in file:
                return f"{shorten(file)}:{place['line']}"
            key = str(frame.get("parent_frame_id", 0) - self.shift)
        return ""


def parse_row(row: str) -> dict[str, int]:
    """Return the numbers of a row by their names."""
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", row)}


def shorten(file: str) -> str:
    """Return a file's path inside this package, or the bare name of a user's file."""
    _, package, inside = file.rpartition("/framebench/")
    return inside if package else file.rpartition("/")[2]
