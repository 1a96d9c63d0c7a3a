"""Which cases a claim is about, in whatever size it is asked of."""

from __future__ import annotations

from dataclasses import dataclass

from framebench.models import spec
from framebench.strategies.registry import OVER_RANKS
from framebench.suite.case import DEFAULT_SIZE, Case, declared


@dataclass(frozen=True)
class Ref:
    """A case in any size: `shift` counts declared batches up or down from the size's base. With a size of its own it takes the
    place of the default size's case, and exists beside that alone."""

    workload: str
    framework: str
    scenario: str
    strategy: str
    shift: int = 0
    own_size: str = ""
    ranks: int = 1
    batch: int = 0  # of a plan alone: this one, whether a size declares it or not

    def at(self, size: str) -> Case | None:
        """The case in this size, if it has such a batch."""
        if self.batch:
            return Case(self.workload, self.framework, self.scenario, self.strategy, self.batch, self.own_size or size)
        if self.own_size and size != DEFAULT_SIZE:
            return None
        if self.ranks > 1 and not OVER_RANKS:  # the feature that has them was deleted
            return None
        size = self.own_size or size
        if size not in spec.workload(self.workload).sizes:
            return None
        preset = spec.workload(self.workload).preset(size)
        place = preset.batches.index(preset.base) + self.shift
        if not 0 <= place < len(preset.batches):
            return None
        case = Case(self.workload, self.framework, self.scenario, self.strategy, preset.batches[place], size, self.ranks)
        return case if declared(case) else None


def sweep(workload: str, framework: str, scenario: str, strategy: str, size: str) -> list[Case]:
    """The case at every declared batch of a size, the smallest first; none where the workload lacks the size."""
    preset = spec.workload(workload).sizes.get(size)
    return [Case(workload, framework, scenario, strategy, batch, size) for batch in preset.batches] if preset else []


def all_of(refs: list[Ref], size: str) -> list[Case]:
    """In this size; none where it lacks one of them."""
    resolved_cases = [ref.at(size) for ref in refs]
    return [case for case in resolved_cases if case] if all(resolved_cases) else []


def place(cases: list[Case]) -> str:
    """`b8/cpu`, or of several batches `b8, b16, b32/cpu`; over ranks `b4, b4x2/cpu`."""
    batches = dict.fromkeys(case.id.split("/")[4] for case in sorted(cases, key=lambda case: (case.batch, case.ranks)))
    return f"{', '.join(batches)}/{cases[0].size}" if cases else ""
