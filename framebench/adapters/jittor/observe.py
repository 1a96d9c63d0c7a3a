"""Count executions of modules, types of variables, and kernels of one step of Jittor."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import jittor as jt
from jittor import Module

from framebench.adapters.base import Evidence
from framebench.suite.trees import read_batch_length

# a node of `jt.dump_all_graphs`: its type and its shape
VARIABLE = re.compile(r"Var\([^,]*,(\w+),.*\)\[([^\]]*)\]")


def list_variables() -> list[tuple[str, list[int]]]:
    """Return type and shape of every variable in Jittor's graph, computed or not."""
    variables = []
    for node in jt.dump_all_graphs().nodes_info:
        variable = VARIABLE.match(str(node))
        if variable:
            dtype, sizes = variable.groups()
            variables.append((dtype, [int(size) for size in sizes.split(",") if size]))
    return variables


# by kind of kernel, the text that is in its name
KINDS_OF_KERNELS = {
    "fused_kernels": "opkey1:",
    "onednn_convolutions": "mkl_conv",
    "onednn_products": "mkl_matmul",
    # only a generated 3-D convolution loops over 9 axes: batch, channels in and out, space, kernel
    "loops_3d": "DIM=9",
}


class ExecutionCounter:
    """Counts what one step does.

    It counts executions of modules, samples per forward pass, and the data types of all variables
    of the step's graph.
    """

    def __init__(self, watched: dict[str, list[Module]]) -> None:
        """Take the modules to count, in named groups.

        The evidence of a proof has one number for each group: the executions of its modules.
        """
        self.watched = watched
        self.executions = dict.fromkeys(watched, 0)
        self.samples: set[int] = set()
        self.dtypes: Counter[str] = Counter()

    def __enter__(self) -> ExecutionCounter:
        """Wrap `execute` of each watched module."""
        for name, modules in self.watched.items():
            for module in modules:
                module.execute = self.wrap_execute(module.execute, name)
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the wrappers."""
        for modules in self.watched.values():
            for module in modules:
                del module.execute  # uncovers the class's own

    def wrap_execute(self, execute: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return a module's `execute` that also counts its calls."""

        def count_and_execute(*xs: Any, **kwargs: Any) -> Any:
            self.executions[name] += 1
            if name == "forward_passes":
                self.samples.add(read_batch_length((xs, kwargs)))
            return execute(*xs, **kwargs)

        return count_and_execute

    def count_graph_types(self) -> None:
        """Count the types of the variables in the graph.

        It is called before the graph is executed, when it still has variables that are fused away.
        """
        self.dtypes.update(dtype for dtype, _ in list_variables())

    def summarize(self) -> Evidence:
        """Return all counts by the names that proofs call them by."""
        return {
            "blocks": len(self.watched.get("block_runs", [])),
            **self.executions,
            "variable_dtypes": dict(self.dtypes),
            "samples_per_pass": sorted(self.samples),
        }


def count_kernels(rows: list[list[str]]) -> dict[str, int]:
    """Count executed kernels by kind, from the rows of Jittor's profile without the heading."""
    counts = dict.fromkeys(("kernels", *KINDS_OF_KERNELS), 0)
    for name, _, count, *_ in rows:
        counts["kernels"] += int(count)
        for kind, text in KINDS_OF_KERNELS.items():
            if text in name:
                counts[kind] += int(count)
    return counts
