"""What Jittor counts while steps are made, for `worker.py`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import jittor as jt

from framebench.adapters.jittor.probe import load_probe, watch_pool
from framebench.growth.leak_report import LiveStorage, Source, StorageTracker
from framebench.growth.meters import Meter

# bytes of a number; those that are not here have 4
WIDTHS = {
    "float64": 8,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
# a variable and an operator as `jt.dump_all_graphs` prints them
VARIABLE = re.compile(
    r"Var\([^,]*,(?P<dtype>[^,]*),[^,]*,(?P<address>[0-9a-f]+)\)\[(?P<shape>[\d,]*)\]"
)
OPERATOR = re.compile(r"\w*Op\([^,]*,(?P<name>[\w.]+)")


def make_byte_meters() -> dict[str, Meter]:
    """Return the meters of the variables alive that were made from now on, or by an adapter."""
    watch_pool()
    return {"allocator.live": load_probe().used_bytes}


def make_count_meters(programs: list[Source]) -> dict[str, Meter]:
    """Return the meters of what else can pile up, by name."""
    return {"variables": jt.number_of_lived_vars, "operations": jt.number_of_lived_ops}


def watch_compilations() -> list[Source]:
    """Return no programs: kernels are compiled by operator, and not counted."""
    return []


def watch_steps(end_step: Callable[[Any], None], kind_of_step: str) -> None:
    """Call `end_step` after each step of an optimizer."""
    post_step = jt.optim.Optimizer.post_step

    def end_and_count(optimizer: jt.optim.Optimizer) -> None:
        post_step(optimizer)
        jt.sync_all(True)
        end_step(optimizer)

    jt.optim.Optimizer.post_step = end_and_count


def wait_for(result: Any) -> None:
    """Wait until the whole graph is computed."""
    jt.sync_all(True)


def describe_process() -> dict[str, Any]:
    """Return versions and device, as fields of `framebench.growth.record.Growth`."""
    device = "cuda" if jt.flags.use_cuda else "cpu"
    return {"versions": {"jittor": jt.__version__}, "device": device}


class GraphArrays(StorageTracker):
    """Arrays that have memory and that no object of Python holds, but the graph of operations does.

    On Python 3.11 Jittor tells the operator that made one, or that waits for it, and no line.
    """

    def list_alive(self) -> list[LiveStorage]:
        """Return each array once. Does not wait for the graph, which would free what it keeps."""
        graph = jt.dump_all_graphs()
        nodes = [str(node) for node in graph.nodes_info]
        inputs, outputs = graph.inputs, graph.outputs  # once: Jittor copies them each time
        numbers_in_python = {read_number(node) for node in graph.hold_vars}
        arrays: dict[str, LiveStorage] = {}  # by address: views share an array
        for place, node in enumerate(nodes):
            variable = VARIABLE.match(node)
            if variable is None or read_number(node) in numbers_in_python:
                continue
            address = variable["address"]
            has_memory = int(address, 16) != 0
            if has_memory and address not in arrays:
                maker = find_operator(nodes, inputs[place])
                user = find_operator(nodes, outputs[place])
                arrays[address] = describe_array(variable, maker, user)
        return list(arrays.values())


Tracker = GraphArrays  # for `worker.py`


def describe_array(variable: re.Match[str], maker: str, user: str) -> LiveStorage:
    """Return the memory of a variable that `VARIABLE` matched.

    `maker` and `user` are the operators that made it and that wait for it, empty if there is none.
    """
    dtype = variable["dtype"]
    shape = [int(number) for number in variable["shape"].split(",") if number]
    description = f"{dtype}{shape}"  # such as `float32[4, 8]`
    if maker:
        description += f" of {maker}"
    elif user:
        description += f" for {user}"
    size = math.prod(shape) * WIDTHS.get(dtype, 4)
    return LiveStorage(description, "the graph of operations", size)


def read_number(node: str) -> str:
    """Return the number in the text of a node, such as `12` of `Var(12:1:1`."""
    return node.partition("(")[2].partition(":")[0]


def find_operator(nodes: list[str], places: list[int]) -> str:
    """Return the name of the first operator at these places of the graph; empty without one."""
    for place in places:
        operator = OPERATOR.match(nodes[place])
        if operator:
            return operator["name"]
    return ""
