"""What the memory that a compiled program reserves is for, by the line of the source that asks for
it.

Read from the texts that XLA dumps. Buffers that are never alive together lie in one place, for
which the largest of them stands.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from framebench.adapters.jax.hlo import HloBuffer, Instruction, parse_assignment, parse_instructions
from framebench.devices.plans.answer import LineBuffers
from framebench.devices.xla.sources import Sources

MOST_HOLDERS = 12


class Placed(NamedTuple):
    """A buffer, and which part of which instruction's result it holds."""

    instruction: str
    part: str
    buffer: HloBuffer


def parts_of(memory: Any) -> dict[str, int]:
    """Return the bytes of a plan by part.

    `memory` is what `memory_analysis` of a compiled program returns.
    """
    return {
        "arguments": memory.argument_size_in_bytes,
        "outputs": memory.output_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
    }


def largest(folder: Path) -> list[LineBuffers]:
    """Return what holds the memory, most bytes first; nothing if XLA dumped nothing into the
    folder.
    """
    program = next(folder.glob("*after_optimizations.txt"), None)
    plan = next(folder.glob("*after_optimizations-buffer-assignment.txt"), None)
    if program is None or plan is None:
        return []
    text = program.read_text()
    computations, _ = parse_instructions(text)
    by_name = {
        instruction.name: instruction
        for computation in computations.values()
        for instruction in computation
    }
    arguments = {name for name, instruction in by_name.items() if instruction.opcode == "parameter"}
    sources = Sources(text, computations)
    buffers, _ = parse_assignment(plan.read_text(), loops=True)
    groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for placed in choose_disjoint(buffers, arguments):
        instruction = by_name.get(placed.instruction)
        if instruction:
            line = find_source(instruction, sources)
            groups[line, find_shape(instruction, placed.part)].append(placed.buffer.size)
    holders = [
        LineBuffers(sum(sizes), line, shape, len(sizes)) for (line, shape), sizes in groups.items()
    ]
    holders.sort(key=lambda holder: -holder.bytes)
    return holders[:MOST_HOLDERS]


def choose_disjoint(buffers: dict[str, dict[str, HloBuffer]], arguments: set[str]) -> list[Placed]:
    """Return the largest of those that lie in one place, an argument before what is written over
    it.

    Together they are no more than what is reserved.
    """
    candidates = []
    for name, positions in buffers.items():
        candidates += [Placed(name, index, buffer) for index, buffer in positions.items()]
    candidates.sort(key=lambda placed: (-placed.buffer.size, placed.instruction not in arguments))
    taken: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # ranges by allocation
    chosen = []
    for placed in candidates:
        allocation, start = placed.buffer.place
        end = start + placed.buffer.size
        if all(
            end <= other_start or start >= other_end for other_start, other_end in taken[allocation]
        ):
            taken[allocation].append((start, end))
            chosen.append(placed)
    return chosen


def find_source(instruction: Instruction, sources: Sources) -> str:
    """Return a line of ours; of an argument the tree that it is from; else what the compiler calls
    it.
    """
    if instruction.opcode == "parameter":
        tree = re.match(r"\w+", instruction.op_name)
        if tree:
            return f"argument {tree[0]}"
    return sources.line(instruction) or instruction.op_name or f"(compiler) {instruction.opcode}"


def find_shape(instruction: Instruction, index: str) -> str:
    """Return the shape of the part of a tuple at an index; nothing of arguments, which are of many
    shapes.
    """
    shapes = re.findall(r"\w+\[[\d,]*\]", instruction.result)
    place = int(index.partition(",")[0] or 0)
    if instruction.opcode == "parameter" or place >= len(shapes):
        return ""
    return str(shapes[place])
