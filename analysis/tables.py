"""Comparison tables: one per workload, scenario and batch; one factor varies, the rest stands in the caption."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as RichTable

from analysis.statistics import BETWEEN_PROCESSES
from framebench.suite.protocol import Task
from framebench.suite.registry import BASELINES, SCENARIOS, STRATEGIES, claims_only, find, in_use, names
from framebench.suite.strategy import FRAMEWORKS, Scenario, Strategy
from models import spec

if TYPE_CHECKING:
    import pandas as pd

GIB, MIB = 2**30, 2**20
HEAD = (
    "framework", "strategy", "peak GiB", "x base", "step ms", "95 % interval", "x base", "throughput", "first s", "break-even",
    "n", "verified", "effect", "instrument",
)  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """A finished table: text cells, ready for a terminal or for Markdown."""

    title: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 2  # the first columns are text, the others are aligned right
    notes: tuple[str, ...] = ()
    machine: str = ""
    cases: tuple[str, ...] = ()  # the case of each row, where a row is one case

    @property
    def key(self) -> str:
        """How documents ask for it: `epyc-2core: transformer train, batch 4, size cpu`."""
        return f"{self.machine}: {self.title}" if self.machine else self.title


APART = "times have no ratio where over an hour lies between a case and its baseline, since a shared processor drifts"
Line = dict[Any, Any]  # one row of the table that `frames.frame` makes


def missing(value: Any) -> bool:
    return value is None or value != value  # NaN is not itself


def number(value: float | None, form: str, times: float = 1) -> str:
    return "-" if value is None or value != value else format(value * times, form)


def mib(count: float | None, form: str = ",.1f") -> str:
    """Bytes in MiB, without the unit."""
    return number(count, form, 1 / MIB)


def mark(value: Any) -> str:
    return "-" if missing(value) else "yes" if value else "NO"


def cells(r: Line) -> tuple[str, ...]:
    """One row; what has no numbers shows its status, and its reason stands in the notes."""
    if r["status"] != "ok":
        return r["framework"], r["strategy"], r["status"], *["-"] * (len(HEAD) - 3)
    return (
        r["framework"],
        r["strategy"],
        number(r["peak_bytes"], ".3f", 1 / GIB),
        number(r["peak_ratio"], ".2f"),
        number(r["step_time_s"], ",.1f", 1e3),
        interval(r["step_low_s"], r["step_high_s"]),
        number(r["time_ratio"], ".2f"),
        f"{number(r['throughput'], ',.1f')} {r['unit']}/s",
        number(r["first_step_s"], ".1f"),
        steps(r["break_even_steps"]),
        str(r["samples"]),
        number(r["worst_error"], ".0e"),
        mark(r["effect_proven"]),
        "-" if missing(r["peak_instrument"]) else r["peak_instrument"],
    )


def interval(low: float | None, high: float | None) -> str:
    """Two ends in seconds as milliseconds."""
    return "-" if missing(low) or missing(high) else f"{number(low, ',.1f', 1e3)} to {number(high, ',.1f', 1e3)}"


def steps(value: float) -> str:
    """Steps after which a longer first step has paid."""
    return "-" if missing(value) else "never" if math.isinf(value) else f"{value:,.0f}"


def lines_of(table: pd.DataFrame) -> list[Line]:
    """The table's rows as dicts of plain Python values; several times as fast as pandas' own way."""
    names = list(table.columns)
    return [dict(zip(names, values)) for values in zip(*(table[name].tolist() for name in names))]


def groups(lines: list[Line], *columns: str) -> Iterator[tuple[tuple[Any, ...], list[Line]]]:
    """The lines that agree in these columns, sorted by them."""
    found: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        found.setdefault(tuple(line[c] for c in columns), []).append(line)
    yield from sorted(found.items())


def in_order(group: list[Line]) -> list[Line]:
    """Framework by framework, strategies as in the table; a combination that is in no profile comes last."""

    def place(r: Line) -> tuple[Any, ...]:
        known = places(r["scenario"])
        strategy = known.get(r["strategy"], len(known))
        # a process that died before it could tell has no version
        version = "" if missing(r["framework_version"]) else r["framework_version"]
        return FRAMEWORKS.index(r["framework"]), version, strategy, r["strategy"]

    return sorted(group, key=place)


@cache
def places(scenario: str) -> dict[str, int]:
    return {name: place for place, name in enumerate(names(scenario))}


def only_for_claims(table: pd.DataFrame) -> pd.Series[bool]:
    """Which rows are of strategies that only test an article's sentence."""
    import pandas as pd  # what answers from rows alone does not wait for it

    found = [find(*place).only_for_claims for place in zip(table["scenario"], table["strategy"])]
    return pd.Series(found, table.index, dtype=bool)


def used(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of strategies that people use."""
    return table[~only_for_claims(table)]


def claim_arms(table: pd.DataFrame) -> Iterator[Comparison]:
    """Framework x strategy for what only tests an article's sentence, with the baselines."""
    baseline = table["strategy"] == table["scenario"].map(BASELINES)
    lines = lines_of(table[only_for_claims(table) | baseline])
    for (_, workload, size, scenario, batch), group in groups(lines, "machine", "workload", "size", "scenario", "batch"):
        if {r["strategy"] for r in group} != {BASELINES[scenario]}:
            yield of_strategies(f"{workload} {scenario}, batch {batch}, size {size}, only for claims", group)


def strategies(table: pd.DataFrame) -> Iterator[Comparison]:
    """Framework x strategy, for each machine, workload, size, scenario and batch. Where there are more strategies than those of
    the quick profile, also a table of these alone."""
    for key, group in groups(lines_of(table), "machine", "workload", "size", "scenario", "batch"):
        _, workload, size, scenario, batch = key
        title = f"{workload} {scenario}, batch {batch}, size {size}"
        yield of_strategies(title, group)
        short = [r for r in group if "+" not in r["strategy"] and find(scenario, r["strategy"]).quick]
        if BASELINES[scenario] in {r["strategy"] for r in short} and len(short) < len(group):
            yield of_strategies(f"{title}, in short", short)


def of_strategies(title: str, group: list[Line]) -> Comparison:
    ranked, shown = in_order(group), shares(group)
    told = [f"{r['framework']} {r['strategy']}: {r['status']}: {r['reason']}" for r in ranked if r["status"] != "ok"]
    told += [f"{r['framework']} {r['strategy']}: {disturbance(r)}" for r in ranked if r["contended"] is True]
    return Comparison(
        title,
        f"base = {BASELINES[ranked[0]['scenario']]} of the same framework; GiB = 2^30 bytes; compare peaks only under one "
        f"instrument. break-even = steps until a longer first step has paid. Two processes of one case differ by "
        f"{BETWEEN_PROCESSES:.0%} in step time: less may be chance, and gives no break-even; {APART}. verified = largest "
        f"relative error against float64. {repeats(group)} {conditions(group)}",
        (*HEAD, *shown),
        tuple((*cells(r), *(number(r[column], ".1%") for column in shown.values())) for r in ranked),
        notes=tuple(dict.fromkeys(told)),
        machine=ranked[0]["machine"],
        cases=tuple(r["case"] for r in ranked),
    )


def disturbance(r: Line) -> str:
    return f"a step took {r['excess']:.2f} times its CPU time: others used the core, and its time is too long"


def shares(group: list[Line]) -> dict[str, str]:
    """Title and column of the shares of the step time that are worth a column in this group."""
    columns = {"waiting": "wait_share", "collector": "collector_share"}
    return {title: column for title, column in columns.items() if any((r[column] or 0) > 0.01 for r in group)}


def frameworks(table: pd.DataFrame) -> Iterator[Comparison]:
    """The frameworks against each other by `host.rss`, the one instrument they share on a CPU: baselines only."""
    lines = lines_of(table[(table["strategy"] == table["scenario"].map(BASELINES)) & table["host_rss_bytes"].notna()])
    for (machine, scenario), group in groups(lines, "machine", "scenario"):
        present = [f for f in FRAMEWORKS if f in {r["framework"] for r in group}]
        rows = []
        for place, found in groups(group, "workload", "size", "batch"):
            newest = {r["framework"]: r for r in sorted(found, key=lambda r: r["measured_at"])}
            sides = [newest.get(f, {}) for f in present]
            gib = (number(r.get("host_rss_bytes"), ".3f", 1 / GIB) for r in sides)
            ms = (number(r.get("step_time_s"), ",.1f", 1e3) for r in sides)
            rows.append((*map(str, place), *gib, *ms))
        head = ("workload", "size", "batch", *(f"{f} GiB" for f in present), *(f"{f} ms" for f in present))
        yield Comparison(
            f"Frameworks side by side, {scenario} ({BASELINES[scenario]})",
            f"peak by host.rss in GiB (2^30 bytes), median step time in ms. {repeats(group)} {conditions(group)}",
            head,
            tuple(rows),
            machine=machine,
        )


SUPPORT = ("strategy", "what it does", "workloads", *FRAMEWORKS, "proof of effect")
GENERATED = "Generated from framebench/suite/registry.py."


def support() -> list[Comparison]:
    """The support matrix: every strategy in every framework, with how or why not. A table for each scenario, and one of what
    only tests an article's sentence."""
    return [*(matrix(scenario) for scenario in SCENARIOS), matrix_of_claims()]


def matrix(scenario: str) -> Comparison:
    stage = SCENARIOS[scenario]
    rows = tuple(supported(stage, name) for name in in_use(scenario))
    caption = f"One step: {stage.summary}. Baseline: {stage.baseline}. {GENERATED}"
    return Comparison(f"Strategies: {scenario}", caption, SUPPORT, rows, left=len(SUPPORT))


def matrix_of_claims() -> Comparison:
    rows = tuple((name, *supported(stage, strategy)) for name, stage in SCENARIOS.items() for strategy in claims_only(name))
    caption = f"What tests an article's sentence, or shows what a default is worth. {GENERATED}"
    return Comparison("Strategies only for claims", caption, ("scenario", *SUPPORT), rows, left=len(SUPPORT) + 1)


def supported(stage: Scenario, name: str) -> tuple[str, ...]:
    """One row of the support matrix."""
    strategy = find(stage.name, name)
    cells = [strategy.cells[f] for f in FRAMEWORKS]
    texts = [f"{c.kind}: {c.why}" + f" (undone on a CPU: {c.undone_on_cpu})" * bool(c.undone_on_cpu) for c in cells]
    exceptions = [f"{where}: {why}" for where, why in strategy.exceptions.items()]
    does = "; ".join([strategy.summary, *exceptions])
    return strategy.name, does, where_it_exists(strategy, stage.workloads), *texts, strategy.effect


def where_it_exists(strategy: Strategy, workloads: tuple[str, ...]) -> str:
    """The scenario's workloads that have the strategy, and its variant."""

    def has(name: str) -> bool:
        return name in strategy.workloads and (not strategy.variant or strategy.variant in spec.workload(name).variants)

    having = [w for w in workloads if has(w)]
    return "all" if tuple(having) == spec.NAMES else ", ".join(having)


def exclusions() -> Comparison:
    """Which strategies cannot be combined: those of one axis, and single pairs with their reasons."""
    axes: dict[str, list[str]] = {}
    pairs: list[tuple[str, str]] = []
    for strategy in {row.name: row for row in STRATEGIES.values()}.values():
        axes.setdefault(strategy.axis, []).append(strategy.name)
        pairs += [(f"{strategy.name} + {other}", why) for other, why in strategy.clashes.items()]
    rows = [(", ".join(found), f"alternatives: {axis}") for axis, found in axes.items() if len(found) > 1] + pairs
    caption = f"Any others may be combined as a+b, in one scenario. {GENERATED}"
    return Comparison("Pairs that make no sense", caption, ("strategies", "why"), tuple(rows))


def of_the_table() -> list[Comparison]:
    """What documents can show without any record."""
    return [*support(), exclusions()]


def conditions(group: list[Line]) -> str:
    """What was held constant, and where it was measured."""
    if not group:
        return "Nothing was measured."

    def one(column: str) -> str:
        return ", ".join(sorted({str(r[column]) for r in group if not missing(r[column])})) or "unknown"

    versions = sorted({f"{r['framework']} {r['framework_version']}" for r in group if not missing(r["framework_version"])})
    days = sorted({f"{r['measured_at']:%Y-%m-%d}" for r in group})
    commits = sorted({"unknown" if missing(r["commit"]) else r["commit"][:10] for r in group})
    measured = " to ".join(dict.fromkeys((days[0], days[-1])))
    return (
        f"Machine {one('machine')} ({one('cpu')}, device {one('device')}), threads {one('threads').replace('.0', '')}; "
        f"calibration {one('calibration')}; {', '.join(versions)}; measured {measured} at {', '.join(commits)}."
    )


def repeats(group: list[Line]) -> str:
    """How the group was measured: precision, warm-up, repeats, and the commands that did it."""
    protocols = ", ".join(sorted({str(r["protocol"]) for r in group}))
    typed = sorted({typed_in_short(command) for command in {r["command"] for r in group}})
    return (
        f"{precisions(group)} Protocol {protocols}: one process for the time ({Task.warmup} steps of warm-up or more, then n "
        f"timed ones), another for the memory; interval = bootstrap 95 % of the median over the n steps. "
        f"Measured by {', '.join(typed) if len(typed) <= 3 else f'{len(typed)} commands, which the records name'}."
    )


@cache
def typed_in_short(command: str) -> str:
    return shorten(command.replace("__main__.py ", "framebench ", 1), 100, placeholder=" ...")


def precisions(group: list[Line]) -> str:
    """The precision of the group's baseline, and the strategies that have another."""
    scenario = group[0]["scenario"]
    default = find(scenario, BASELINES[scenario]).precision
    found = dict.fromkeys((find(scenario, r["strategy"]).precision, r["strategy"]) for r in group)
    others = [f"{strategy} {precision}" for precision, strategy in sorted(found) if precision != default]
    return f"Precision {default}; {', '.join(others)}." if others else f"Precision {default}."


def terminal(comparison: Comparison, console: Console) -> None:
    drawn = RichTable(title=comparison.title, caption=comparison.caption, title_justify="left", caption_justify="left")
    for i, name in enumerate(comparison.head):
        drawn.add_column(name, justify="left" if i < comparison.left else "right", overflow="fold")
    for line in comparison.rows:
        drawn.add_row(*(cell.replace("[", r"\[") for cell in line))
    console.print(drawn)
    for note in comparison.notes:
        console.print(f"- {note}", markup=False, highlight=False)
    console.print()


def markdown(comparison: Comparison) -> str:
    """GitHub's table syntax; what comes from files cannot break out of its cell."""

    def safe(text: str) -> str:
        for char, escaped in (("\\", r"\\"), ("|", r"\|"), ("<", "&lt;"), ("\n", " "), ("`", r"\`"), ("[", r"\[")):
            text = text.replace(char, escaped)
        return text

    rule = ["---" if i < comparison.left else "---:" for i in range(len(comparison.head))]
    lines = [comparison.head, rule, *comparison.rows]
    body = "\n".join("| " + " | ".join(safe(c) if n != 1 else c for c in line) + " |" for n, line in enumerate(lines))
    notes = "".join(f"- {safe(note)}\n" for note in comparison.notes)
    return "\n\n".join(filter(None, (f"### {comparison.title}", body, notes.rstrip("\n"), safe(comparison.caption)))) + "\n"
