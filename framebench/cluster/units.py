"""Split a run of the suite into units that can be measured on different machines.

A unit is one block of one group of cases. Cases that are compared are in one block, and a block
stays on one machine, so that no ratio crosses machines. A unit is an ordinary `framebench run` of
the group's cases, and needs nothing of other units. Slurm and a printed plan start the same ones.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from framebench.cluster.collect import NODES
from framebench.engine.request import RunRequest
from framebench.suite.case import Case
from framebench.suite.selectors import join_choice
from framebench.suite.sequences import group_by


def make_units(request: RunRequest, cases: Iterable[Case]) -> list[RunRequest]:
    """Return a request in units: the first block of every group, then the second.

    A case over ranks has no times, so that one block of it is enough.
    """
    groups = group_cases(cases)
    has_torch = any(group[0].framework == "torch" for group in groups)
    units = []
    for number in range(request.blocks):
        for group in groups:
            has_times = group[0].ranks == 1
            if number > 0 and not has_times:
                continue
            unit = replace(
                request,
                selectors=(make_selector(group),),
                block=number,
                blocks=1,
                beside_torch=has_torch and has_times and group[0].framework != "torch",
            )
            units.append(unit)
    return units


def group_cases(cases: Iterable[Case]) -> list[list[Case]]:
    """Return the cases in groups. The cases of a group differ only in their strategies."""
    get_key = attrgetter("workload", "scenario", "batch", "ranks", "size", "framework")
    return list(group_by(cases, get_key).values())


def make_selector(group: list[Case]) -> str:
    """Return the selector that names a group's cases, with their strategies in braces.

    The cases differ only in their strategies, as those of `group_cases` do.
    """
    workload, framework, scenario, _strategy, batch, size = group[0].id.split("/")
    strategies = join_choice([case.strategy for case in group])
    return f"{workload}/{framework}/{scenario}/{strategies}/{batch}/{size}"


def select_unfinished(
    units: Iterable[RunRequest], results: Path, code: str | None
) -> list[RunRequest]:
    """Return the units that are done neither in a results folder nor in a machine's below it."""
    finished = list_finished(results)
    return [unit for unit in units if unit.mark(code) not in finished]


def list_finished(results: Path) -> set[str]:
    """Return the marks of the units that are done in a results folder or in a machine's below."""
    files = [*results.glob(".done-*.json"), *results.glob(f"{NODES}/*/.done-*.json")]
    return {file.name for file in files}


def make_shell_line(unit: RunRequest, program: str, results: Path) -> str:
    """Return the shell command that measures a unit, for any program that starts commands.

    The machines share the results folder, and each writes into a folder of its own below it.
    """
    command = shlex.join([program, *unit.make_arguments()])
    nodes = shlex.quote(str(results / NODES))
    return f'{command} --results {nodes}/"$(hostname)"'
