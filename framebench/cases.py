"""A case: workload x framework x scenario x strategy x batch x size. Its id sorts, and can be typed at the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from framebench.strategies import FRAMEWORKS, STRATEGIES, Cell, Strategy, Unsupported
from models import spec

DEFAULT_SIZE = "cpu"


class UnknownCase(ValueError):
    """A selector that names nothing; the message lists what is valid at the place that was wrong."""


@dataclass(frozen=True, order=True)
class Case:
    workload: str
    framework: str
    scenario: str
    strategy: str
    batch: int
    size: str = DEFAULT_SIZE

    @property
    def id(self) -> str:
        """For instance `resnet50/torch/train/checkpoint/b8/cpu`."""
        return f"{self.workload}/{self.framework}/{self.scenario}/{self.strategy}/b{self.batch}/{self.size}"

    @property
    def spec(self) -> spec.Workload:
        return spec.workload(self.workload)

    @property
    def plan(self) -> Strategy:
        return STRATEGIES[self.scenario, self.strategy]

    @property
    def golden_key(self) -> str:
        return self.spec.golden_key(self.size, self.batch, self.scenario, self.plan.micro_batches)

    @property
    def support(self) -> Cell:
        """The table's cell, refined by what the workload allows."""
        cell = self.plan.cells[self.framework]
        if self.strategy == "rewrite" and cell.supported:
            how = self.spec.rewrites.get(self.framework)
            return type(cell)(how) if how else Unsupported("no slow path was found in this workload to write differently")
        if self.batch % self.plan.micro_batches:
            return Unsupported(f"batch {self.batch} does not divide into {self.plan.micro_batches} micro-batches")
        return cell


def every_case() -> Iterator[Case]:
    """All declared cases in every size, unsupported ones included."""
    for workload in spec.NAMES:
        for size, preset in spec.workload(workload).sizes.items():
            for framework in FRAMEWORKS:
                for scenario, strategy in STRATEGIES:
                    for batch in preset.batches:
                        yield Case(workload, framework, scenario, strategy, batch, size)


# What a run measures when no case is named: the size, and what is measured at a second batch besides the first. Activations
# make up most of the Transformer's training memory, so a second batch tells most there; all of them would take too long.
PROFILES: dict[str, tuple[str, str]] = {"tiny": ("tiny", ""), "quick": ("cpu", "transformer/train/fp32")}


def profile_name() -> str:
    return os.environ.get("FRAMEBENCH_PROFILE") or "quick"


def profile(name: str | None = None) -> list[Case]:
    """The cases of a profile; by default that of $FRAMEBENCH_PROFILE, or `quick`. Raises UnknownCase."""
    name = name or profile_name()
    if name not in PROFILES:
        raise UnknownCase(f"no profile {name!r}; profiles: {', '.join(PROFILES)}")
    size, twice = PROFILES[name]

    def within(case: Case) -> bool:
        batches = case.spec.sizes[size].batches
        count = 2 if f"{case.workload}/{case.scenario}/{case.strategy}" == twice else 1
        return case.size == size and case.batch in batches[:count]

    return [case for case in every_case() if within(case)]


def select(selector: str, size: str = DEFAULT_SIZE) -> list[Case]:
    """Cases that match `workload/framework/scenario/strategy/bN/size`; parts may be globs, missing ones mean all.

    A missing size means `size`. Raises UnknownCase naming the first part that nothing matches, with the valid values.
    """
    parts = selector.strip("/").split("/")
    if len(parts) > 6:
        raise UnknownCase(f"{selector!r} has {len(parts)} parts; a case is workload/framework/scenario/strategy/bN/size")
    patterns = [p or "*" for p in parts] + ["*"] * (6 - len(parts))
    if len(parts) < 6:
        patterns[5] = size
    # the size restricts which batches exist, so it is matched first
    order = (("workload", 0), ("framework", 1), ("scenario", 2), ("strategy", 3), ("size", 5), ("batch", 4))
    found = list(every_case())
    for name, place in order:
        valid = dict.fromkeys(case.id.split("/")[place] for case in found)
        found = [c for c in found if fnmatchcase(c.id.split("/")[place], patterns[place])]
        if not found:
            raise UnknownCase(f"no {name} {patterns[place]!r} in {selector!r}; choose from: {', '.join(valid)}")
    return found


def parse(case_id: str) -> Case:
    """The one case with this full id. Raises UnknownCase."""
    found = select(case_id)
    if len(found) != 1:
        raise UnknownCase(f"{case_id!r} names {len(found)} cases, not one; give all six parts")
    return found[0]
