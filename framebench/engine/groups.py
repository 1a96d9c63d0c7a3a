"""Which cases are measured in one block, because they are compared with each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from framebench.engine import references, runner
from framebench.engine.environments import Environment
from framebench.engine.timed_process import Arm
from framebench.suite.case import Case, declared
from framebench.suite.strategy import FRAMEWORKS


@dataclass(frozen=True)
class Group:
    """Arms that are compared with each other. `always` are in each of its blocks; where memory does not suffice for all at
    once, the others are shared out among several."""

    name: str
    always: tuple[Arm, ...]
    others: tuple[Arm, ...] = ()


def groups(cases: Iterable[Case], ready: dict[str, Environment]) -> list[Group]:
    """Cases that can be measured, by workload, scenario, batch, size and framework: each with the framework's baseline, asked
    for or not, and where PyTorch is measured too with PyTorch's, by which frameworks are compared."""
    sets: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        sets.setdefault((case.workload, case.scenario, case.batch, case.size, case.framework), []).append(case)
    return [_group_of(group_cases, ready) for group_cases in sets.values()]


def _group_of(cases: list[Case], ready: dict[str, Environment]) -> Group:
    base_case = replace(cases[0], strategy=cases[0].stage.baseline)
    bases = [c for c in (replace(base_case, framework=FRAMEWORKS[0]), base_case) if c.framework in ready]
    bases = [c for c in bases if declared(c) and not runner.unsupported(c)]
    always = tuple(Arm(c, ready[c.framework]) for c in dict.fromkeys(bases))
    others = tuple(Arm(c, ready[c.framework]) for c in references.in_order(cases) if c not in bases)
    version = ready[base_case.framework].name  # asv measures several in one session
    return Group(f"{base_case.workload}/{version}/{base_case.scenario}/b{base_case.batch}/{base_case.size}", always, others)


def pair(base: Case, change: Case, ready: dict[str, Environment]) -> Group:
    """Two cases of one block of their own, of which none is the other's baseline."""
    arms = tuple(Arm(case, ready[case.framework]) for case in (base, change))
    return Group(f"pair/{base.id}/{change.id}", arms)
