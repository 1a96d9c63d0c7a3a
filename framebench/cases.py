"""A case: workload x framework x scenario x strategy x batch x size. Its id sorts, and can be typed at the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from framebench.strategies import FRAMEWORKS, SCENARIOS, STRATEGIES, Cell, Strategy, Unsupported, names
from models import spec

SIZES = ("tiny", "cpu", "full")
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


def quick() -> Iterator[Case]:
    """The quick profile: every strategy at the first `cpu` batch, the baselines at the next one too."""
    for case in every_case():
        batches = case.spec.sizes["cpu"].batches
        chosen = batches[:2] if case.strategy in ("fp32", "no_grad") else batches[:1]
        if case.size == "cpu" and case.batch in chosen:
            yield case


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


__all__ = ["DEFAULT_SIZE", "SCENARIOS", "SIZES", "Case", "UnknownCase", "every_case", "names", "parse", "quick", "select"]
