"""Parse the two texts that XLA dumps of a compiled program.

One has the scheduled instructions, the other the place of each buffer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from framebench.instruments.memory_timeline import Value

COMPUTATION = re.compile(r"(?P<entry>ENTRY )?%(?P<name>[\w.\-]+) \(.*\{$")
INSTRUCTION = re.compile(r"\s+(?P<root>ROOT )?%(?P<name>[\w.\-]+) = (?P<definition>.*)")
NAME = re.compile(r"%([\w.\-]+)")
ALLOCATION = re.compile(r"allocation (?P<number>\d+): size (?P<size>\d+), (?P<purpose>.*):$")
VALUE = re.compile(
    r" value: <\d+ (?P<name>[\w.\-]+)(?:\{(?P<index>[\d,]*)\})?(?P<carried> \(phi\))? @\d+>"
    r" \(size=(?P<size>\d+),offset=(?P<offset>\d+)\)"
)
# Constants and the values inside of fused operators take no memory of the step. On a TPU a colour
# other than 0 is another kind of memory, such as that next to the compute units.
OTHER_MEMORY = re.compile(r"thread-local|constant|color [1-9]")


@dataclass(eq=False)
class HloBuffer(Value):
    """A buffer of the program: its place, and the phases in which it is read."""

    place: tuple[int, int] = (0, 0)  # allocation, offset
    read_in: set[str] = field(default_factory=set)

    def overlaps(self, other: HloBuffer) -> bool:
        """Return whether this buffer and another one have a byte of an allocation in common."""
        allocation, start = self.place
        other_allocation, other_start = other.place
        if allocation != other_allocation:
            return False
        return start < other_start + other.size and other_start < start + self.size


# the buffers at each index of an instruction's result; the index is "" if the result is no tuple
Positions = dict[str, list[HloBuffer]]


@dataclass
class Instruction:
    """One instruction of a scheduled program."""

    name: str
    opcode: str
    operands: list[str]
    attributes: str
    root: bool
    result: str  # its type, such as `f32[4,16]{1,0}`; of a tuple all of them in parentheses

    @property
    def op_name(self) -> str:
        """Return the operation of the program that it comes from, or "" if the compiler added it.

        An example is `jit(step)/transpose(jvp(layer:))/layer:blocks.0/add`.
        """
        name = re.search(r'op_name="([^";]*)', self.attributes)
        return name[1].replace("\\'", "'") if name else ""

    def list_called(self, *roles: str) -> list[str]:
        """Return the computations that it calls in these roles, such as `body` of a loop."""
        names = []
        for role in roles:
            names += re.findall(rf"\b{role}=\{{?%([\w.\-]+)", self.attributes)
        return names


def parse_instructions(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """Return the instructions of each computation in the order they run, and the entry's name."""
    computations: dict[str, list[Instruction]] = {}
    entry = ""
    instructions: list[Instruction] = []
    for line in text.splitlines():
        heading = COMPUTATION.match(line)
        if heading:
            instructions = computations[heading["name"]] = []
            if heading["entry"]:
                entry = heading["name"]
            continue
        row = INSTRUCTION.match(line)
        if row:
            instructions.append(parse_instruction(row))
    return computations, entry


def parse_instruction(row: re.Match[str]) -> Instruction:
    """Return the instruction of a line that matches INSTRUCTION."""
    definition = row["definition"]
    result_end = definition.find(" ")
    if definition.startswith("("):  # the type of a tuple, which has spaces
        result_end = find_closing(definition) + 1
    call = definition[result_end:].strip()
    opening = call.find("(")
    closing = opening + find_closing(call[opening:])
    opcode = call[:opening]
    inside = call[opening + 1 : closing]
    return Instruction(
        name=row["name"],
        opcode=opcode,
        operands=[inside.strip()] if opcode == "parameter" else NAME.findall(inside),
        attributes=call[closing:],
        root=bool(row["root"]),
        result=definition[:result_end].strip(),
    )


def find_closing(text: str) -> int:
    """Return the index of the parenthesis that closes the one at the beginning."""
    depth = 0
    for index, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        if depth == 0:
            return index
    return len(text) - 1


def parse_assignment(
    text: str,
    loops: bool = False,
) -> tuple[dict[str, dict[str, HloBuffer]], dict[int, tuple[int, str]]]:
    """Return the places of buffers in the memory of a step.

    Args:
        text: The buffer assignment that XLA dumps.
        loops: Include the values that a loop carries from pass to pass.

    Returns:
        Buffers by the instruction and the index of its result, and size and purpose of each
        allocation by its number.
    """
    buffers: dict[str, dict[str, HloBuffer]] = defaultdict(dict)
    allocations: dict[int, tuple[int, str]] = {}
    number = -1
    for line in text.splitlines():
        allocation = ALLOCATION.match(line)
        if allocation:
            number = int(allocation["number"])
            if not OTHER_MEMORY.search(allocation["purpose"]):
                allocations[number] = int(allocation["size"]), allocation["purpose"]
            continue
        value = VALUE.match(line)
        if value is None or number not in allocations:
            continue
        if loops or not value["carried"]:
            place = (number, int(value["offset"]))
            buffer = HloBuffer("temporary", "", "", size=int(value["size"]), place=place)
            buffers[value["name"]][value["index"] or ""] = buffer
    return buffers, allocations
