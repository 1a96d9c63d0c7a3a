"""What Jittor counts while steps are made, for `growth/worker.py`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import jittor as jt

from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.growth.leak_report import Program, Storages

WIDTHS = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}  # bytes


def live(adapter: JittorAdapter) -> dict[str, Callable[[], int]]:
    return {"allocator.live": adapter.live_bytes}


def counters(adapter: JittorAdapter, programs: list[Program]) -> dict[str, Callable[[], int]]:
    """What else can pile up, by name."""
    return {"variables": jt.number_of_lived_vars, "operations": jt.number_of_lived_ops}


def watch_compilations() -> list[Program]:
    """Kernels are compiled by operator, and not counted."""
    return []


def storages() -> Storages:
    return GraphArrays()


class GraphArrays(Storages):
    """Arrays that have memory and that no object of Python holds, but the graph of operations does. On Python 3.11 Jittor tells
    the operator that made one, or that waits for it, and no line."""

    def alive(self) -> list[tuple[str, str, int]]:
        """In the order in which they were made. Nothing is waited for: that would end what is kept."""
        graph = jt.dump_all_graphs()
        nodes, held = list(map(str, graph.nodes_info)), {number_of(node) for node in graph.hold_vars}
        arrays = dict[str, tuple[str, str, int]]()
        for node, makers, users in zip(nodes, graph.inputs, graph.outputs):
            found = VAR.match(node)
            if found and number_of(node) not in held and int(found["place"], 16):
                around = [
                    f"{word} {name}" for word, others in (("of", makers), ("for", users)) for name in names(nodes, others)
                ]
                arrays.setdefault(found["place"], described(found, around[:1]))
        return list(arrays.values())


VAR = re.compile(r"Var\([^,]*,(?P<dtype>[^,]*),[^,]*,(?P<place>[0-9a-f]+)\)\[(?P<shape>[\d,]*)\]")
OPERATOR = re.compile(r"\w*Op\([^,]*,(?P<name>[\w.]+)")


def number_of(node: str) -> str:
    """`Var(12:1:1` has the number 12."""
    return node.partition("(")[2].partition(":")[0]


def names(nodes: list[str], places: list[int]) -> list[str]:
    """Of the operators at these places of the graph."""
    found = (OPERATOR.match(nodes[place]) for place in places)
    return [operator["name"] for operator in found if operator]


def described(found: re.Match[str], around: list[str]) -> tuple[str, str, int]:
    """`float32[4, 8] of matmul`, which made it, or `for matmul`, which waits for it; held by what, and its bytes."""
    shape = [int(n) for n in found["shape"].split(",") if n]
    size = math.prod(shape) * WIDTHS.get(found["dtype"], 4)
    return " ".join([f"{found['dtype']}{shape}", *around]), "the graph of operations", size
