"""What the memory that a compiled program reserves is for, by the line of the source that asks for it: from the texts that XLA
dumps. Buffers that are never alive together lie in one place, which is told by the largest of them."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from framebench.adapters.jax.hlo import Buffer, Instruction, assignment, instructions
from framebench.devices.xla.sources import Sources

MOST = 12  # lines
ENDS = ("", "-buffer-assignment")  # of the files' names


def largest(folder: Path) -> list[dict[str, Any]]:
    """Bytes, line, shape and how many places, most bytes first; none if XLA dumped nothing."""
    texts = [next(folder.glob(f"*after_optimizations{end}.txt"), None) for end in ENDS]
    if not all(texts):
        return []
    hlo, plan = (path.read_text() for path in texts if path)
    computations, _ = instructions(hlo)
    made = {i.name: i for computation in computations.values() for i in computation}
    sources, groups = Sources(hlo, computations), defaultdict[tuple[str, str], list[int]](list)
    arguments = {name for name, instruction in made.items() if instruction.opcode == "parameter"}
    for name, index, buffer in disjoint(assignment(plan, loops=True)[0], arguments):
        if instruction := made.get(name):
            groups[asked_by(instruction, sources), _shape(instruction, index)].append(buffer.size)
    rows = [{"bytes": sum(s), "line": line, "shape": shape, "count": len(s)} for (line, shape), s in groups.items()]
    return sorted(rows, key=lambda row: -int(str(row["bytes"])))[:MOST]


def disjoint(buffers: dict[str, dict[str, Buffer]], arguments: set[str]) -> list[tuple[str, str, Buffer]]:
    """The largest of those that lie in one place, an argument before what is written over it: together they are no more than
    what is reserved."""
    every = [(name, index, b) for name, positions in buffers.items() for index, b in positions.items()]
    taken: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by allocation
    kept = []
    for name, index, buffer in sorted(every, key=lambda one: (-one[2].size, one[0] not in arguments)):
        (allocation, start), end = buffer.place, buffer.place[1] + buffer.size
        if all(end <= begin or start >= until for begin, until in taken[allocation]):
            taken[allocation].append((start, end))
            kept.append((name, index, buffer))
    return kept


def asked_by(instruction: Instruction, sources: Sources) -> str:
    """A line of ours; of an argument the tree that it is from; else what the compiler calls it."""
    if instruction.opcode == "parameter" and (tree := re.match(r"\w+", instruction.op_name)):
        return f"argument {tree[0]}"
    return sources.line(instruction) or instruction.op_name or f"(compiler) {instruction.opcode}"


def _shape(instruction: Instruction, index: str) -> str:
    """Of the part of a tuple that is meant; arguments are of many shapes."""
    shapes = re.findall(r"\w+\[[\d,]*\]", instruction.result)
    place = int(index.partition(",")[0] or 0)
    return "" if instruction.opcode == "parameter" or place >= len(shapes) else shapes[place]
