"""Which cases a claim is about, in whatever size it is asked of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from framebench.models import spec
from framebench.suite.case import Case, is_declared

PLACE = re.compile(
    r"(?P<scenario>\w+)/(?P<strategy>[\w+]+)"
    r"(@(b(?P<batch>\d+))?(?P<shift>-?\d+)?(x(?P<ranks>\d+))?(:(?P<size>[\w-]+))?)?"
)


@dataclass(frozen=True)
class Ref:
    """A case in any size."""

    workload: str
    framework: str
    scenario: str
    strategy: str
    shift: int = 0  # declared batches above the size's base
    ranks: int = 1
    batch: int = 0  # of a plan alone: this one, whether a size declares it or not
    own_size: str = ""  # with such a batch

    def at(self, size: str) -> Case | None:
        """Return the case in this size, or None if it has no such batch."""
        if self.batch:
            return Case(
                self.workload,
                self.framework,
                self.scenario,
                self.strategy,
                self.batch,
                self.own_size or size,
            )
        if size not in spec.load_workload(self.workload).sizes:
            return None
        preset = spec.load_workload(self.workload).preset(size)
        place = preset.batches.index(preset.base) + self.shift
        if not 0 <= place < len(preset.batches):
            return None
        batch = preset.batches[place]
        case = Case(
            self.workload, self.framework, self.scenario, self.strategy, batch, size, self.ranks
        )
        return case if is_declared(case) else None


def read_ref(text: str, workload: str, framework: str) -> Ref:
    """Return the cases that a text names in a workload and a framework.

    `train/fp32`; `train/fp32@-2`: two declared batches below the base; `train/ddp@x2`: over two
    ranks; `train/fp32@b1:full-1b`: batch 1 of that size, of a plan; `unet3d/torch/train/fp32`: of
    that workload and framework. Raises ValueError.
    """
    if text.count("/") == 3:
        workload, framework, text = text.split("/", 2)
    found = PLACE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} names no case, such as train/fp32@-1")
    return Ref(
        workload,
        framework,
        found["scenario"],
        found["strategy"],
        shift=int(found["shift"] or 0),
        ranks=int(found["ranks"] or 1),
        batch=int(found["batch"] or 0),
        own_size=found["size"] or "",
    )


def resolve_sweep(ref: Ref, size: str) -> list[Case]:
    """Return the case at every declared batch of a size, the smallest first."""
    preset = spec.load_workload(ref.workload).sizes.get(size)
    if preset is None:
        return []
    return [
        Case(ref.workload, ref.framework, ref.scenario, ref.strategy, batch, size)
        for batch in preset.batches
    ]


def resolve_all(refs: Iterable[Ref], size: str) -> list[Case]:
    """Return the cases in this size; none where it lacks one of them."""
    cases = []
    for ref in refs:
        case = ref.at(size)
        if case is None:
            return []
        cases.append(case)
    return cases


def describe_batches(cases: list[Case]) -> str:
    """Return `b8/cpu`, or of several batches `b8, b16, b32/cpu`; over ranks `b4, b4x2/cpu`."""
    if not cases:
        return ""
    ordered = sorted(cases, key=lambda case: (case.batch, case.ranks))
    batches = dict.fromkeys(case.id.split("/")[4] for case in ordered)
    return f"{', '.join(batches)}/{cases[0].size}"
