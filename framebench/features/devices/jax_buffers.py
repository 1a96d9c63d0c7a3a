"""The largest buffers at the fullest moment of a compiled program, by the line of the source that asks for them: from the texts
that XLA dumps."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from framebench.adapters.jax.hlo import assignment, instructions
from framebench.adapters.jax.sources import Sources

MOST = 12  # lines
ENDS = ("", "-live-range", "-buffer-assignment")  # of the files' names
LIVE = re.compile(r"^    ([\w.\-]+)\{([\d,]*)\}: (\d+) bytes", re.M)
Place = tuple[int, int]  # allocation, offset


def largest(folder: Path) -> list[dict[str, Any]]:
    """Bytes, line, shape and how many buffers, most bytes first; none if XLA did not say what is alive at the peak."""
    texts = {
        end: next(folder.glob(f"*after_optimizations{end}.txt"), None) for end in ("", "-live-range", "-buffer-assignment")
    }
    if not all(texts.values()):
        return []
    hlo, ranges, plan = (path.read_text() for path in texts.values() if path)
    alive = LIVE.findall(ranges.partition("(peak):")[2].partition("Stack trace")[0])
    computations, _ = instructions(hlo)
    by_name = {i.name: i for computation in computations.values() for i in computation}
    sources, (buffers, _) = Sources(hlo, computations), assignment(plan)
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    taken: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by allocation: what is written over something counts once
    for name, index, _ in sorted(alive, key=lambda one: -int(one[2])):
        buffer, made = buffers.get(name, {}).get(index), by_name.get(name)
        if buffer is None or made is None or not _free(taken[buffer.place[0]], buffer.place[1], buffer.size):
            continue
        argument = re.match(r"\w+", made.op_name) if made.opcode == "parameter" else None
        line = f"argument {argument[0]}" if argument else sources.line(made) or made.op_name or f"(compiler) {made.opcode}"
        groups[line, "" if argument else _shape(made.result, index)].append(buffer.size)
    rows = [{"bytes": sum(s), "line": line, "shape": shape, "count": len(s)} for (line, shape), s in groups.items()]
    return sorted(rows, key=lambda row: -int(str(row["bytes"])))[:MOST]


def _free(taken: list[tuple[int, int]], start: int, size: int) -> bool:
    """Whether nothing that is listed lies there; it is taken then."""
    free = all(start + size <= begin or start >= end for begin, end in taken)
    if free:
        taken.append((start, start + size))
    return free


def _shape(result: str, index: str) -> str:
    """Of the part of a tuple that is meant."""
    shapes = re.findall(r"\w+\[[\d,]*\]", result)
    place = int(index.partition(",")[0] or 0)
    return shapes[place] if place < len(shapes) else ""
