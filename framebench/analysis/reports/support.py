"""The support matrix: which strategies there are, in which framework, and what cannot be combined. It needs no record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from framebench.analysis.comparison import DETAIL, ESSENTIAL, Comparison, Shown
from framebench.models import spec
from framebench.suite.case import Case
from framebench.suite.registry import OVER_RANKS, SCENARIOS, STRATEGIES, claims_only, find, in_use
from framebench.suite.strategy import FRAMEWORKS, TITLES, AlwaysOn, Cell, Scenario, Strategy

FRAMEWORK_COLUMNS = [Shown(name, priority=ESSENTIAL) for name in FRAMEWORKS]
SUPPORT = (
    Shown("strategy", priority=ESSENTIAL),
    Shown("what it does", priority=DETAIL),
    Shown("workloads", priority=DETAIL),
    *FRAMEWORK_COLUMNS,
    Shown("proof of effect", priority=DETAIL),
)
FEW = 12  # strategies of a framework: of more the mechanism is left out, since it fills a screen
GENERATED = "Generated from framebench/suite/registry.py."


def support() -> list[Comparison]:
    """The support matrix: every strategy in every framework, with how or why not. A table for each scenario, and one of what
    only tests an article's sentence."""
    over_ranks = [_matrix_over_ranks()] if OVER_RANKS else []
    return [*(matrix(scenario) for scenario in SCENARIOS), *over_ranks, _matrix_of_claims()]


def matrix(scenario: str) -> Comparison:
    stage = SCENARIOS[scenario]
    rows = tuple(supported(stage, name) for name in in_use(scenario))
    caption = f"One step: {stage.summary}. Baseline: {stage.baseline}. {GENERATED}"
    return Comparison.of_text(f"Strategies: {scenario}", caption, SUPPORT, rows, left=len(SUPPORT))


def _matrix_over_ranks() -> Comparison:
    rows = tuple((scenario, *supported(SCENARIOS[scenario], name)) for scenario, name in OVER_RANKS)
    caption = (
        f"What several processes or devices do together; a case says how many: b4x2, a batch of 4 over 2 ranks. {GENERATED}"
    )
    return Comparison.of_text("Strategies over ranks", caption, ("scenario", *SUPPORT), rows, left=len(SUPPORT) + 1)


def _matrix_of_claims() -> Comparison:
    rows = tuple((name, *supported(stage, strategy)) for name, stage in SCENARIOS.items() for strategy in claims_only(name))
    caption = f"What tests an article's sentence, or shows what a default is worth. {GENERATED}"
    return Comparison.of_text("Strategies only for claims", caption, ("scenario", *SUPPORT), rows, left=len(SUPPORT) + 1)


def supported(stage: Scenario, name: str) -> tuple[str, ...]:
    """One row of the support matrix."""
    strategy = find(stage.name, name)
    cells = [strategy.cells[f] for f in FRAMEWORKS]
    texts = [f"{c.kind}: {c.why}" + f" (undone on a CPU: {c.undone_on_cpu})" * bool(c.undone_on_cpu) for c in cells]
    exceptions = [f"{where}: {why}" for where, why in strategy.exceptions.items()]
    does = "; ".join([strategy.summary, *exceptions])
    return strategy.name, does, _where_it_exists(strategy, stage), *texts, strategy.effect


def _where_it_exists(strategy: Strategy, stage: Scenario) -> str:
    """Return the workloads that have the strategy in this scenario."""
    published = spec.confirmed_names()
    having = [w for w in published if stage.suits(spec.workload(w)) and strategy.suits(spec.workload(w))]
    return "all" if tuple(having) == published else ", ".join(having)


def _exclusions() -> Comparison:
    """Which strategies cannot be combined: those of one axis, and single pairs with their reasons."""
    axes: dict[str, list[str]] = {}
    pairs: list[tuple[str, str]] = []
    for strategy in {row.name: row for row in STRATEGIES.values()}.values():
        axes.setdefault(strategy.axis, []).append(strategy.name)
        pairs += [(f"{strategy.name} + {other}", why) for other, why in strategy.clashes.items()]
    changing = [name for (scenario, name), row in STRATEGIES.items() if scenario == "train" and row.mathematics]
    pairs.append((" + ".join(changing), "each changes what a step computes"))
    rows = [
        (", ".join(strategy_names), f"alternatives: {axis}") for axis, strategy_names in axes.items() if len(strategy_names) > 1
    ] + pairs
    caption = f"All others of one scenario may be combined as a+b. {GENERATED}"
    return Comparison.of_text("Meaningless combinations", caption, ("strategies", "why"), tuple(rows))


def in_short() -> Iterator[Comparison]:
    """For a narrow terminal: what each framework has, without how or why."""
    caption = "How, or why not: framebench list --strategies '*/jittor', or docs/strategies.md."
    for scenario, stage in SCENARIOS.items():
        full = (supported(stage, name) for name in in_use(scenario))
        rows = [(name, *(text.partition(":")[0] for text in cells), does) for name, does, _, *cells, _ in full]
        head = ("strategy", *FRAMEWORKS, "what it does")
        yield Comparison.of_text(f"Strategies: {scenario}", caption, head, rows, left=len(head))


def of_cases(cases: Iterable[Case]) -> Iterator[Comparison]:
    """What each framework has of the strategies of these cases, and why it lacks the others. Combinations, and what only tests
    an article's sentence, are shown where nothing else was named."""
    places: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        places.setdefault((case.framework, case.scenario, case.strategy), []).append(case)
    usual = {place: same for place, same in places.items() if "+" not in place[2] and not same[0].plan.only_for_claims}
    for framework in FRAMEWORKS:
        yield from _of_framework(framework, [same for place, same in (usual or places).items() if place[0] == framework])


def _of_framework(framework: str, places: Sequence[list[Case]]) -> Iterator[Comparison]:
    """Each of `places` has the cases of one strategy in one scenario."""
    there: dict[str, dict[str, list[str]]] = {}
    lacking: dict[str, dict[str, None]] = {}
    for same in places:
        cell = _cell(same)
        if cell.supported:
            how = f"{cell.kind}: {cell.why}" if len(places) <= FEW else cell.kind
            there.setdefault(how, {}).setdefault(same[0].scenario, []).append(same[0].strategy)
        else:
            lacking.setdefault(cell.why, {})[same[0].strategy] = None
    if there:
        example = next(iter(next(iter(there.values())).values()))[-1]
        told = f"How one is done: framebench list --strategies '*/{framework}/*/{example}'. Words: docs/strategies.md."
        caption = told if len(places) > FEW else ""
        rows = [("; ".join(f"{s}: {', '.join(found)}" for s, found in each.items()), how) for how, each in there.items()]
        yield Comparison.of_text(f"{TITLES[framework]} has", caption, ("strategies", "how"), rows)
    if lacking:
        absent = [(", ".join(found), why) for why, found in lacking.items()]
        yield Comparison.of_text(f"{TITLES[framework]} does not have", "", ("strategies", "why"), absent)


def _cell(same: Sequence[Case]) -> Cell:
    """The strategy's, unless none of these cases can have it: then why not there."""
    cell = same[0].plan.cells[same[0].framework]
    refused = not isinstance(cell, AlwaysOn) and not any(case.support.supported for case in same)
    return same[0].support if cell.supported and refused else cell


def every_table() -> list[Comparison]:
    """What documents can show without any record."""
    return [*support(), _exclusions()]
