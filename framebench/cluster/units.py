"""A run of the suite in units, each of which can be measured on another machine: one block of one group of cases.

What is compared is in one block, and a block stays on one machine, so that no ratio crosses machines. A unit is an ordinary
`framebench run` of the group's cases, and needs nothing of the others; Slurm and a printed plan start the same ones.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from framebench.cluster.collect import NODES
from framebench.engine.request import Asked
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case


def unfinished(units: Iterable[Asked], results: Path, code: str | None) -> list[Asked]:
    """Those that came to an end neither in this results folder nor in one of its machines'."""
    there = marks(results)
    return [unit for unit in units if unit.mark(code) not in there]


def marks(results: Path) -> set[str]:
    return {file.name for folder in ("", f"{NODES}/*/") for file in results.glob(f"{folder}.done-*.json")}


def units(asked: Asked, cases: Iterable[Case]) -> list[Asked]:
    """The same in units: the first block of every group, then the second. A case over ranks has no times: one is enough."""
    sets: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        key = (case.workload, case.scenario, case.batch, case.ranks, case.size, case.framework)
        sets.setdefault(key, []).append(case)
    beside = any(case.framework == FRAMEWORKS[0] for unit_cases in sets.values() for case in unit_cases)
    return [
        replace(
            asked, selectors=(_selector(unit_cases),), block=number, blocks=1,
            beside_torch=beside and unit_cases[0].framework != FRAMEWORKS[0] and unit_cases[0].ranks == 1,
        )
        for number in range(asked.blocks)
        for unit_cases in sets.values()
        if number == 0 or unit_cases[0].ranks == 1
    ]  # fmt: skip


def _selector(cases: list[Case]) -> str:
    """Of cases that differ in their strategies alone."""
    workload, framework, scenario, _, batch, size = cases[0].id.split("/")
    strategies = ",".join(case.strategy for case in cases)
    return "/".join((workload, framework, scenario, f"{{{strategies}}}" if len(cases) > 1 else strategies, batch, size))


def shell(unit: Asked, program: str, results: Path) -> str:
    """A line for any engine that starts commands on machines with this folder in common, of which each has its own in there."""
    return f'{shlex.join([program, *unit.arguments()])} --results {shlex.quote(str(results / NODES))}/"$(hostname)"'
