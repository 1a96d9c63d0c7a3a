"""The two texts that XLA dumps of a compiled program: its instructions as they are scheduled, and which buffer lies where."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from framebench.instruments.memory_timeline import Value


@dataclass(eq=False)
class Buffer(Value):
    """Where it lies, and in which phases it is read."""

    place: tuple[int, int] = (0, 0)  # allocation, offset
    read_in: set[str] = field(default_factory=set)


Positions = dict[str, list[Buffer]]  # what may lie at an index of an instruction's result; "" if it is no tuple


@dataclass
class Instruction:
    name: str
    opcode: str
    operands: list[str]
    attributes: str
    root: bool
    result: str  # its type, such as `f32[4,16]{1,0}`; of a tuple all of them in parentheses

    @property
    def op_name(self) -> str:
        """Where it comes from, such as `jit(step)/transpose(jvp(layer:))/layer:blocks.0/add`."""
        name_match = re.search(r'op_name="([^";]*)', self.attributes)
        return name_match[1].replace("\\'", "'") if name_match else ""

    def calls(self, *roles: str) -> list[str]:
        return [name for role in roles for name in re.findall(rf"\b{role}=\{{?%([\w.\-]+)", self.attributes)]


def instructions(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """Each computation's instructions in the order in which they run, and the name of the entry."""
    computations: dict[str, list[Instruction]] = {}
    entry = name = ""
    for line in text.splitlines():
        if head := re.match(r"(ENTRY )?%([\w.\-]+) \(.*\{$", line):
            name = head[2]
            computations[name], entry = [], name if head[1] else entry
        elif part := re.match(r"\s+(ROOT )?%([\w.\-]+) = (.*)", line):
            call = part[3][_closing(part[3]) :] if part[3].startswith("(") else part[3].partition(" ")[2]
            opcode, _, rest = call.strip().partition("(")
            inside = rest[: _closing("(" + rest) - 2]
            operands = [inside.strip()] if opcode == "parameter" else re.findall(r"%([\w.\-]+)", inside)
            result = part[3].removesuffix(call).strip()
            computations[name].append(Instruction(part[2], opcode, operands, rest[len(inside) :], bool(part[1]), result))
    return computations, entry


def _closing(text: str) -> int:
    """The place after the parenthesis that closes the one at the beginning."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place + 1
    return len(text)


def assignment(text: str, loops: bool = False) -> tuple[dict[str, dict[str, Buffer]], dict[int, tuple[int, str]]]:
    """Buffers by instruction and index of its result, and size and purpose of each allocation. Without what is no memory of the
    step: constants, and the values inside of fused operators. With `loops` also what a loop carries from pass to pass."""
    buffers: dict[str, dict[str, Buffer]] = defaultdict(dict)
    allocations: dict[int, tuple[int, str]] = {}
    number, carried = -1, r"(?: \(phi\))?" if loops else ""
    for line in text.splitlines():
        if head := re.match(r"allocation (\d+): size (\d+), (.*):$", line):
            number = int(head[1])
            # on a TPU a colour is a memory of another kind, such as that beside the units
            if not re.search(r"thread-local|constant|color [1-9]", head[3]):
                allocations[number] = int(head[2]), head[3]
        elif number in allocations and (
            value_match := re.match(
                rf" value: <\d+ ([\w.\-]+)(?:\{{([\d,]*)\}})?{carried} @\d+> \(size=(\d+),offset=(\d+)\)", line
            )
        ):
            name, index, size, offset = value_match[1], value_match[2] or "", int(value_match[3]), int(value_match[4])
            buffers[name][index] = Buffer("temporary", "", "", size=size, place=(number, offset))
    return buffers, allocations
