"""Group the cases that are measured in one block, because they are compared with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from framebench.engine import references, runner
from framebench.engine.environments import Environment
from framebench.engine.timed_process import Variant
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case, is_declared

REFERENCE_FRAMEWORK = FRAMEWORKS[0]  # PyTorch: other frameworks' baselines are compared with its


@dataclass(frozen=True)
class Group:
    """Variants that are compared with each other.

    The variants in `always` are in each of the group's blocks. If memory does not suffice for all
    variants at once, the `others` are distributed over several blocks.
    """

    name: str
    always: tuple[Variant, ...]
    others: tuple[Variant, ...] = ()


def make_groups(cases: Iterable[Case], environments: dict[str, Environment]) -> list[Group]:
    """Group cases that can be measured by workload, scenario, batch, size and framework.

    Each group has the framework's baseline, whether it is among the cases or not. If PyTorch is
    measured too, it also has PyTorch's baseline, so that frameworks can be compared.
    `environments` are by framework.
    """
    groups: dict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in cases:
        key = case.workload, case.scenario, case.batch, case.size, case.framework
        groups[key].append(case)
    return [make_group(group, environments) for group in groups.values()]


def make_group(cases: list[Case], environments: dict[str, Environment]) -> Group:
    """Make a group of cases that differ only in their strategy."""
    baseline = replace(cases[0], strategy=cases[0].scenario_spec.baseline)
    baselines = []
    # a dict keeps the order, and drops the second of two equal frameworks
    for framework in dict.fromkeys((REFERENCE_FRAMEWORK, baseline.framework)):
        case = replace(baseline, framework=framework)
        is_measurable = is_declared(case) and not runner.explain_unsupported(case)
        if framework in environments and is_measurable:
            baselines.append(case)
    others = [case for case in references.order_by_reference(cases) if case not in baselines]
    version = environments[baseline.framework].name  # asv measures several versions in a session
    return Group(
        f"{baseline.workload}/{version}/{baseline.scenario}/b{baseline.batch}/{baseline.size}",
        make_variants(baselines, environments),
        make_variants(others, environments),
    )


def make_pair(base: Case, change: Case, environments: dict[str, Environment]) -> Group:
    """Make a group of two cases, neither of which is the other's baseline."""
    return Group(f"pair/{base.id}/{change.id}", make_variants([base, change], environments))


def make_variants(
    cases: Iterable[Case], environments: dict[str, Environment]
) -> tuple[Variant, ...]:
    """Return each case with the environment of its framework."""
    return tuple(Variant(case, environments[case.framework]) for case in cases)
