"""The support matrix: which strategies there are, in which framework, and what cannot be combined.

It needs no record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pandas as pd

from framebench.analysis.rendering import Table, TableColumn, read_columns
from framebench.models import spec
from framebench.strategies.registry import (
    OVER_RANKS,
    SCENARIOS,
    STRATEGIES,
    find_strategy,
    list_strategies,
    list_used,
)
from framebench.strategies.strategy import FRAMEWORKS, TITLES, AlwaysOn, Scenario, Strategy, Support
from framebench.suite.case import Case
from framebench.suite.sequences import drop_duplicates, group_by

COLUMNS = tuple(read_columns("support").values())
HEADINGS = tuple(column.name for column in COLUMNS)
# a table of more strategies has no column for the mechanism, which would fill a screen
MOST_WITH_MECHANISM = 12
UNTRIED_ON_GPU = ("jittor",)  # frameworks that have not run on a GPU yet (docs/gpu.md)
GENERATED = "Generated from framebench/strategies/registry.py."


def make_tables() -> list[Table]:
    """Return the tables that need no record: strategies by framework, and exclusions."""
    only_for_claims = []
    for scenario in SCENARIOS:
        for name in list_strategies(scenario):
            if name not in list_used(scenario):
                only_for_claims.append((scenario, name))
    return [
        *map(make_matrix, SCENARIOS),
        make_matrix_of_scenarios(
            "Strategies over ranks",
            "What several processes or devices do together; a case says how many: b4x2, a batch of "
            "4 over 2 ranks.",
            OVER_RANKS,
        ),
        make_matrix_of_scenarios(
            "Strategies only for claims",
            "What tests an article's sentence, or shows what a default is worth.",
            only_for_claims,
        ),
        list_exclusions(),
    ]


def make_matrix(scenario: str) -> Table:
    """Return the strategies of a scenario in every framework, with how it has each, or why not."""
    scenario_spec = SCENARIOS[scenario]
    return Table.of_text(
        f"Strategies: {scenario}",
        f"One step: {scenario_spec.summary}. Baseline: {scenario_spec.baseline}. {GENERATED}",
        COLUMNS,
        [describe_strategy(scenario_spec, name) for name in list_used(scenario)],
        left=len(COLUMNS),
    )


def make_matrix_of_scenarios(title: str, caption: str, places: Iterable[tuple[str, str]]) -> Table:
    """Return strategies in every framework, as `make_matrix`, with a column for the scenario.

    `places` are pairs of a scenario and a strategy.
    """
    rows = []
    for scenario, name in places:
        rows.append((scenario, *describe_strategy(SCENARIOS[scenario], name)))
    head: tuple[str | TableColumn, ...] = ("scenario", *COLUMNS)
    return Table.of_text(title, f"{caption} {GENERATED}", head, rows, left=len(head))


def make_summaries() -> Iterator[Table]:
    """Yield a table of each scenario's strategies by framework, for a narrow terminal.

    The tables tell neither how a strategy is done nor why it cannot be done.
    """
    names = ("strategy", *FRAMEWORKS, "what it does")
    for table in map(make_matrix, SCENARIOS):
        data = pd.DataFrame(table.data).copy()
        for framework in FRAMEWORKS:
            data[framework] = data[framework].str.partition(":")[0]
        yield replace(
            table,
            caption="How, or why not: framebench list --strategies '*/jittor', or "
            "docs/strategies.md.",
            data=data,
            shown={name: table.shown[name] for name in names},
        )


def describe_strategy(scenario_spec: Scenario, name: str) -> tuple[str, ...]:
    """Return a strategy's cells in the support matrix."""
    strategy = find_strategy(scenario_spec.name, name)
    exceptions = [f"{where}: {why}" for where, why in strategy.exceptions.items()]
    supports = []  # how each framework has it, or why not
    for framework in FRAMEWORKS:
        support = strategy.support[framework]
        undone = f" (undone on a CPU: {support.undone_on_cpu})" if support.undone_on_cpu else ""
        supports.append(f"{support.kind}: {support.why}{undone}")
    return (
        strategy.name,
        "; ".join([strategy.summary, *exceptions]),
        list_workloads(strategy, scenario_spec),
        *supports,
        strategy.effect,
    )


def list_workloads(strategy: Strategy, scenario_spec: Scenario) -> str:
    """Return the workloads that have the strategy in this scenario, or `all`."""
    published = spec.list_confirmed_workloads()
    names = []
    for name in published:
        workload = spec.load_workload(name)
        if scenario_spec.suits(workload) and strategy.suits(workload):
            names.append(name)
    if len(names) == len(published):
        return "all"
    return ", ".join(names)


def list_exclusions() -> Table:
    """Return a table of the strategies that cannot be combined, and why.

    These are all strategies of one axis, single pairs, and strategies that change the mathematics.
    """
    axes: dict[str, list[str]] = {}
    pairs = []
    # a strategy is the same in several scenarios
    by_name = {strategy.name: strategy for strategy in STRATEGIES.values()}
    for name, strategy in by_name.items():
        axes.setdefault(strategy.axis, []).append(name)
        pairs += [(f"{name} + {other}", why) for other, why in strategy.clashes.items()]
    alternatives = []
    for axis, names in axes.items():
        if len(names) > 1:
            alternatives.append((", ".join(names), f"alternatives: {axis}"))
    changing = []
    for (scenario, name), strategy in STRATEGIES.items():
        if scenario == "train" and strategy.mathematics:
            changing.append(name)
    changes = (" + ".join(changing), "each changes what a step computes")
    return Table.of_text(
        "Meaningless combinations",
        f"All others of one scenario may be combined as a+b. {GENERATED}",
        ("strategies", "why"),
        [*alternatives, *pairs, changes],
    )


def describe_cases(cases: Iterable[Case]) -> Iterator[Table]:
    """Yield the strategies of these cases that each framework has, and why it lacks the others.

    Combinations, and strategies that only test an article's sentence, are left out unless nothing
    else is among the cases.
    """
    by_strategy = group_by(cases, lambda case: (case.framework, case.scenario, case.strategy))
    every = list(by_strategy.values())
    usual = []
    for cases_of_strategy in every:
        case = cases_of_strategy[0]
        if "+" not in case.strategy and not case.strategy_spec.only_for_claims:
            usual.append(cases_of_strategy)
    by_framework = group_by(usual or every, lambda cases_of_one: cases_of_one[0].framework)
    for framework, strategies in by_framework.items():
        yield from make_support_tables(framework, strategies)


def make_support_tables(framework: str, strategies: Sequence[Sequence[Case]]) -> Iterator[Table]:
    """Yield a table of the strategies that a framework has, and one of those that it lacks.

    `strategies` are the cases of each of this framework's strategies.
    """
    is_long = len(strategies) > MOST_WITH_MECHANISM
    caption = ""
    if is_long:
        caption = (
            f"How one is done: framebench list --strategies '*/{framework}/*/STRATEGY'. "
            "Words: docs/strategies.md."
        )
    # the names of strategies by how they are had, or why not
    has: dict[str, list[str]] = defaultdict(list)
    lacks: dict[str, list[str]] = defaultdict(list)
    for cases in strategies:
        support = find_support(cases)
        name = cases[0].strategy
        if not support.supported:
            lacks[support.why].append(name)
        elif is_long:
            has[support.kind].append(name)
        else:
            has[f"{support.kind}: {support.why}"].append(name)
    for title, names_by_text in {"has": has, "does not have": lacks}.items():
        if not names_by_text:
            continue
        # a strategy may be in several scenarios
        rows = [(", ".join(drop_duplicates(names)), text) for text, names in names_by_text.items()]
        untried = ""
        if framework in UNTRIED_ON_GPU and any("(GPU)" in text for text in names_by_text):
            untried = f"(GPU): not tried, as {TITLES[framework]} was not run on CUDA here. "
        yield Table.of_text(
            f"{TITLES[framework]} {title}",
            f"{untried}{caption}".strip(),
            ("strategies", "how, or why not"),
            rows,
        )


def find_support(cases: Sequence[Case]) -> Support:
    """Return how the framework has the strategy of these cases.

    Where none of them can have it, it is the reason why not there.
    """
    case = cases[0]
    # the strategy's support by the catalog; a workload or scenario may still refuse it
    support = case.strategy_spec.support[case.framework]
    is_refused = not isinstance(support, AlwaysOn) and not any(
        one.support.supported for one in cases
    )
    return case.support if support.supported and is_refused else support
