"""Which cases are measured in one block, because they are compared with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from framebench.engine import references, runner
from framebench.engine.environments import Environment
from framebench.engine.timed_process import Variant
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case, is_declared

REFERENCE_FRAMEWORK = FRAMEWORKS[0]  # PyTorch, whose baseline the others' are compared with


@dataclass(frozen=True)
class Group:
    """Variants that are compared with each other.

    `always` are in each of its blocks; where memory does not suffice for all at once, the others
    are shared out among several blocks.
    """

    name: str
    always: tuple[Variant, ...]
    others: tuple[Variant, ...] = ()


def make_groups(cases: Iterable[Case], ready: dict[str, Environment]) -> list[Group]:
    """Group cases that can be measured by workload, scenario, batch, size and framework.

    Each group has the framework's baseline, asked for or not, and where PyTorch is measured too,
    PyTorch's, by which frameworks are compared. `ready`: the environments by framework.
    """
    alike: dict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in cases:
        alike[case.workload, case.scenario, case.batch, case.size, case.framework].append(case)
    return [make_group(group_cases, ready) for group_cases in alike.values()]


def make_group(cases: list[Case], ready: dict[str, Environment]) -> Group:
    """Make a group of cases that differ in their strategy alone."""
    baseline = replace(cases[0], strategy=cases[0].stage.baseline)
    always = []
    for framework in dict.fromkeys((REFERENCE_FRAMEWORK, baseline.framework)):
        case = replace(baseline, framework=framework)
        if framework in ready and is_declared(case) and not runner.explain_unsupported(case):
            always.append(Variant(case, ready[framework]))
    baselines = [variant.case for variant in always]
    others = [case for case in references.order_by_reference(cases) if case not in baselines]
    version = ready[baseline.framework].name  # asv measures several in one session
    return Group(
        f"{baseline.workload}/{version}/{baseline.scenario}/b{baseline.batch}/{baseline.size}",
        tuple(always),
        tuple(Variant(case, ready[case.framework]) for case in others),
    )


def make_pair(base: Case, change: Case, ready: dict[str, Environment]) -> Group:
    """Make a group of two cases of which none is the other's baseline."""
    variants = tuple(Variant(case, ready[case.framework]) for case in (base, change))
    return Group(f"pair/{base.id}/{change.id}", variants)
