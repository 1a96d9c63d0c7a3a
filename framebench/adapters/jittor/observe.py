"""Count what one step of Jittor does while it runs.

That is executions of modules, types of variables, and kernels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import jittor as jt
from jittor import Module

from framebench.adapters.base import Evidence
from framebench.suite.trees import count_samples

VARIABLE = re.compile(r"Var\([^,]*,(\w+),")  # a node of `jt.dump_all_graphs`, and its type


class ExecutionCounter:
    """Counts what one step does.

    That is executions of modules, samples per forward pass, and data types of all variables of the
    step's graph.
    """

    def __init__(self, watched: dict[str, list[Module]]) -> None:
        """Set the modules whose executions are counted, by their name in the evidence."""
        self.watched = watched
        self.executions = dict.fromkeys(watched, 0)
        self.samples: set[int] = set()
        self.dtypes: Counter[str] = Counter()

    def __enter__(self) -> ExecutionCounter:
        for name, modules in self.watched.items():
            for module in modules:
                module.execute = self.wrap_execute(module.execute, name)
        return self

    def __exit__(self, *error: object) -> None:
        for modules in self.watched.values():
            for module in modules:
                del module.execute  # uncovers the class's own

    def wrap_execute(self, execute: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return the same execution of a module, counted."""

        def count_and_execute(*xs: Any, **named: Any) -> Any:
            self.executions[name] += 1
            if name == "forward_passes":
                self.samples.add(count_samples((xs, named)))
            return execute(*xs, **named)

        return count_and_execute

    def read_graph(self) -> None:
        """Count the types of the variables in the graph, before it is executed.

        Then it still has those that get fused away.
        """
        for node in jt.dump_all_graphs().nodes_info:
            variable = VARIABLE.match(str(node))
            if variable:
                self.dtypes[variable[1]] += 1

    def summarize(self) -> Evidence:
        """Return what was counted."""
        return {
            "blocks": len(self.watched.get("block_runs", [])),
            **self.executions,
            "variable_dtypes": dict(self.dtypes),
            "samples_per_pass": sorted(self.samples),
        }


def count_kernels(rows: list[list[str]]) -> dict[str, int]:
    """Count executed kernels by kind, from the rows of Jittor's profile without the heading."""
    counts = {
        "kernels": 0,
        "fused_kernels": 0,
        "onednn_convolutions": 0,
        "onednn_products": 0,
        "loops_3d": 0,
    }
    for row in rows:
        name = row[0]
        count = int(row[2])
        counts["kernels"] += count
        if "opkey1:" in name:
            counts["fused_kernels"] += count
        if name.startswith("mkl_conv"):
            counts["onednn_convolutions"] += count
        if name.startswith("mkl_matmul"):
            counts["onednn_products"] += count
        # a generated 3-D convolution alone loops over so many: batch, in, out, space, kernel
        if "DIM=9" in name:
            counts["loops_3d"] += count
    return counts
