"""A run of the suite in units, each of which can be measured on another machine: one block of one group of cases.

What is compared is in one block, and a block stays on one machine, so that no ratio crosses machines. A unit is an ordinary
`framebench run` of the group's cases, and needs nothing of the others; Slurm and a printed plan start the same ones.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from framebench.engine.runner import USUAL, Options
from framebench.engine.session import Session
from framebench.features.cluster.collect import NODES
from framebench.suite.case import Case
from framebench.suite.strategy import FRAMEWORKS


@dataclass(frozen=True)
class Asked:
    """What `framebench run` is asked for, as its options say; results do not count."""

    selectors: tuple[str, ...]
    profile: str | None = None
    options: Options = USUAL
    env: str | None = None
    blocks: int = 1
    block: int | None = None  # of these blocks the one of this number alone
    beside_torch: bool = False  # PyTorch's baseline in each block, though none of its cases is named

    @property
    def named(self) -> str:
        """What tells the session from others. Options too: what was measured with other threads or under a limit does not stand
        for what is asked for now."""
        of = f"block {self.block}" if self.block is not None else f"{self.blocks} blocks"
        parts = [*self.selectors, self.profile or "", *([f"--env {self.env}"] if self.env else []), of]
        return " ".join([*parts, *(["beside torch"] if self.beside_torch else []), str(self.options)])

    def arguments(self) -> list[str]:
        """The command line without the program and the results folder; what has its default is left out."""
        named = {
            "profile": self.profile,
            "env": self.env,
            "block": self.block,
            "blocks": self.blocks if self.blocks > 1 else None,
        }
        changed = {
            f.name: getattr(self.options, f.name)
            for f in fields(Options)
            if f.name != "profile" and getattr(self.options, f.name) != f.default
        }
        if limit := changed.get("memory_limit"):
            changed["memory_limit"] = f"{limit}B"
        names = {"time_limit_s": "time-limit"}
        options = {
            names.get(name, name.replace("_", "-")): value for name, value in (named | changed).items() if value is not None
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return ["run", *self.selectors, *words, *(["--beside-torch"] if self.beside_torch else [])]

    def mark(self, code: str | None) -> str:
        """The file that says, in a results folder, that a run of this by this code came to its end."""
        return Session("", code, self.named).path(Path(), "done").name


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
    beside = any(case.framework == FRAMEWORKS[0] for found in sets.values() for case in found)
    return [
        replace(
            asked, selectors=(selector(found),), block=number, blocks=1,
            beside_torch=beside and found[0].framework != FRAMEWORKS[0] and found[0].ranks == 1,
        )
        for number in range(asked.blocks)
        for found in sets.values()
        if number == 0 or found[0].ranks == 1
    ]  # fmt: skip


def selector(cases: list[Case]) -> str:
    """Of cases that differ in their strategies alone."""
    workload, framework, scenario, _, batch, size = cases[0].id.split("/")
    strategies = ",".join(case.strategy for case in cases)
    return "/".join((workload, framework, scenario, f"{{{strategies}}}" if len(cases) > 1 else strategies, batch, size))


def shell(unit: Asked, program: str, results: Path) -> str:
    """A line for any engine that starts commands on machines with this folder in common, of which each has its own in there."""
    return f'{shlex.join([program, *unit.arguments()])} --results {shlex.quote(str(results / NODES))}/"$(hostname)"'
