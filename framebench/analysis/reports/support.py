"""The support matrix: which strategies there are, in which framework, and what cannot be combined.

It needs no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn
from framebench.models import spec
from framebench.strategies.registry import (
    OVER_RANKS,
    SCENARIOS,
    STRATEGIES,
    find_strategy,
    list_claims_only,
    list_used,
)
from framebench.strategies.strategy import FRAMEWORKS, TITLES, AlwaysOn, Scenario, Strategy, Support
from framebench.suite.case import Case

COLUMNS = (
    TableColumn("strategy", priority=ESSENTIAL),
    TableColumn("what it does", priority=DETAIL),
    TableColumn("workloads", priority=DETAIL),
    *(TableColumn(framework, priority=ESSENTIAL) for framework in FRAMEWORKS),
    TableColumn("proof of effect", priority=DETAIL),
)
HEADINGS = tuple(column.name for column in COLUMNS)
FEW = 12  # strategies of a framework: of more the mechanism is left out, since it fills a screen
GENERATED = "Generated from framebench/strategies/registry.py."


def make_tables() -> list[Table]:
    """Return what documents can show without any record."""
    tables = [make_matrix(scenario) for scenario in SCENARIOS]
    if OVER_RANKS:
        tables.append(make_matrix_over_ranks())
    return [*tables, make_matrix_of_claims(), list_exclusions()]


def make_matrix(scenario: str) -> Table:
    """Return the strategies of a scenario in every framework, with how it has each, or why not."""
    stage = SCENARIOS[scenario]
    return Table.of_text(
        f"Strategies: {scenario}",
        f"One step: {stage.summary}. Baseline: {stage.baseline}. {GENERATED}",
        COLUMNS,
        [describe_strategy(stage, name) for name in list_used(scenario)],
        left=len(COLUMNS),
    )


def make_matrix_over_ranks() -> Table:
    """Return the strategies of several processes or devices."""
    caption = (
        "What several processes or devices do together; a case says how many: b4x2, a batch of 4 "
        f"over 2 ranks. {GENERATED}"
    )
    rows = [
        (scenario, *describe_strategy(SCENARIOS[scenario], name)) for scenario, name in OVER_RANKS
    ]
    head: tuple[str | TableColumn, ...] = ("scenario", *COLUMNS)
    return Table.of_text("Strategies over ranks", caption, head, rows, left=len(head))


def make_matrix_of_claims() -> Table:
    """Return the strategies that only test an article's sentence."""
    caption = f"What tests an article's sentence, or shows what a default is worth. {GENERATED}"
    rows = []
    for scenario, stage in SCENARIOS.items():
        rows += [(scenario, *describe_strategy(stage, name)) for name in list_claims_only(scenario)]
    head: tuple[str | TableColumn, ...] = ("scenario", *COLUMNS)
    return Table.of_text("Strategies only for claims", caption, head, rows, left=len(head))


def describe_strategy(stage: Scenario, name: str) -> tuple[str, ...]:
    """Return a strategy's cells in the support matrix."""
    strategy = find_strategy(stage.name, name)
    exceptions = [f"{where}: {why}" for where, why in strategy.exceptions.items()]
    return (
        strategy.name,
        "; ".join([strategy.summary, *exceptions]),
        list_workloads(strategy, stage),
        *(describe_support(strategy.support[framework]) for framework in FRAMEWORKS),
        strategy.effect,
    )


def describe_support(support: Support) -> str:
    """Return how a framework has a strategy, or why not."""
    text = f"{support.kind}: {support.why}"
    if support.undone_on_cpu:
        text += f" (undone on a CPU: {support.undone_on_cpu})"
    return text


def list_workloads(strategy: Strategy, stage: Scenario) -> str:
    """Return the workloads that have the strategy in this scenario."""
    published = spec.list_confirmed_workloads()
    having = []
    for name in published:
        workload = spec.load_workload(name)
        if stage.suits(workload) and strategy.suits(workload):
            having.append(name)
    return "all" if tuple(having) == published else ", ".join(having)


def list_exclusions() -> Table:
    """Return which strategies cannot be combined, and why.

    They are those of one axis, and single pairs.
    """
    axes: dict[str, list[str]] = {}
    pairs = []
    # a strategy is the same in several scenarios
    by_name = {strategy.name: strategy for strategy in STRATEGIES.values()}
    for strategy in by_name.values():
        axes.setdefault(strategy.axis, []).append(strategy.name)
        for other, why in strategy.clashes.items():
            pairs.append((f"{strategy.name} + {other}", why))
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


def make_summaries() -> Iterator[Table]:
    """Yield what each framework has, a table for each scenario, for a narrow terminal.

    They have neither how a strategy is done nor why not.
    """
    caption = "How, or why not: framebench list --strategies '*/jittor', or docs/strategies.md."
    head = ("strategy", *FRAMEWORKS, "what it does")
    for scenario, stage in SCENARIOS.items():
        rows = []
        for strategy in list_used(scenario):
            name, summary, _, *cells, _ = describe_strategy(stage, strategy)
            kinds = [cell.partition(":")[0] for cell in cells]
            rows.append((name, *kinds, summary))
        yield Table.of_text(f"Strategies: {scenario}", caption, head, rows, left=len(head))


def describe_cases(cases: Iterable[Case]) -> Iterator[Table]:
    """Yield what each framework has of the strategies of these cases, and why it lacks the others.

    Combinations, and what only tests an article's sentence, are shown where nothing else was named.
    """
    groups: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.framework, case.scenario, case.strategy), []).append(case)
    shown = [group for group in groups.values() if is_usual(group[0])]
    if not shown:
        shown = list(groups.values())
    for framework in FRAMEWORKS:
        of_framework = [group for group in shown if group[0].framework == framework]
        yield from describe_framework(framework, of_framework)


def is_usual(case: Case) -> bool:
    """Return whether a strategy is a single one that people use."""
    return "+" not in case.strategy and not case.plan.only_for_claims


def describe_framework(framework: str, strategies: Sequence[list[Case]]) -> Iterator[Table]:
    """Yield what a framework has and what it lacks.

    Each of `strategies` has the cases of one strategy in one scenario.
    """
    supported: dict[str, dict[str, list[str]]] = {}  # by how they are done, and by scenario
    lacking: dict[str, list[str]] = {}  # by the reason
    is_short = len(strategies) <= FEW
    for cases in strategies:
        case = cases[0]
        support = find_support(cases)
        if support.supported:
            how = f"{support.kind}: {support.why}" if is_short else support.kind
            scenarios = supported.setdefault(how, {})
            scenarios.setdefault(case.scenario, []).append(case.strategy)
        else:
            names = lacking.setdefault(support.why, [])
            if case.strategy not in names:
                names.append(case.strategy)
    if supported:
        rows = []
        for how, scenarios in supported.items():
            lists = [f"{scenario}: {', '.join(names)}" for scenario, names in scenarios.items()]
            rows.append(("; ".join(lists), how))
        caption = ""
        if not is_short:
            first = next(iter(supported.values()))
            example = next(iter(first.values()))[-1]
            caption = (
                f"How one is done: framebench list --strategies '*/{framework}/*/{example}'. "
                "Words: docs/strategies.md."
            )
        yield Table.of_text(f"{TITLES[framework]} has", caption, ("strategies", "how"), rows)
    if lacking:
        rows = [(", ".join(names), why) for why, names in lacking.items()]
        title = f"{TITLES[framework]} does not have"
        yield Table.of_text(title, "", ("strategies", "why"), rows)


def find_support(cases: Sequence[Case]) -> Support:
    """Return how the framework has the strategy of these cases.

    Where none of them can have it, it is the reason why not there.
    """
    case = cases[0]
    # what the catalog says of the strategy; a workload or scenario may still refuse it
    support = case.plan.support[case.framework]
    is_refused = not isinstance(support, AlwaysOn) and not any(
        one.support.supported for one in cases
    )
    return case.support if support.supported and is_refused else support
