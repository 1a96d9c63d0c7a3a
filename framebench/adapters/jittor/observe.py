"""What one step of Jittor does, counted while it runs: executions of modules, types of variables, kernels."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import jittor as jt
from jittor import Module

from framebench.adapters.base import Evidence
from framebench.suite.trees import samples


class Observed:
    """Counts what one step does: executions of modules, samples per forward pass, data types of all variables of its graph."""

    def __init__(self, watched: dict[str, list[Module]]) -> None:
        self.watched = watched
        self.count: Counter[str] = Counter(dict.fromkeys(watched, 0))
        self.samples: set[int] = set()
        self.dtypes: Counter[str] = Counter()

    def __enter__(self) -> Observed:
        for name, modules in self.watched.items():
            for module in modules:
                module.execute = self.counted(module.execute, name)
        return self

    def __exit__(self, *error: Any) -> None:
        for modules in self.watched.values():
            for module in modules:
                del module.execute  # uncovers the class's own

    def counted(self, execute: Any, name: str) -> Any:
        def run(*xs: Any, **named: Any) -> Any:
            self.count[name] += 1
            if name == "forward_passes":
                self.samples.add(samples((xs, named)))
            return execute(*xs, **named)

        return run

    def read_graph(self) -> None:
        """While a step is not yet executed, its graph names the type of every variable, also of those that get fused away."""
        nodes = jt.dump_all_graphs().nodes_info
        self.dtypes.update(m[1] for m in (re.match(r"Var\([^,]*,(\w+),", str(n)) for n in nodes) if m)

    def evidence(self) -> Evidence:
        observations = {"blocks": len(self.watched.get("block_runs", [])), **self.count, "variable_dtypes": dict(self.dtypes)}
        return observations | {"samples_per_pass": sorted(self.samples)}


def kernel_counts(report: list[list[str]]) -> dict[str, int]:
    """Executed kernels by kind. Only a generated 3-D convolution loops over nine dimensions: batch, in, out, space, kernel."""
    rows = [(row[0], int(row[2])) for row in report]
    return {
        "kernels": sum(n for _, n in rows),
        "fused_kernels": sum(n for name, n in rows if "opkey1:" in name),
        "onednn_convolutions": sum(n for name, n in rows if name.startswith("mkl_conv")),
        "onednn_products": sum(n for name, n in rows if name.startswith("mkl_matmul")),
        "loops_3d": sum(n for name, n in rows if "DIM=9" in name),
    }
