"""Comparison tables: one per workload, scenario and batch; one factor varies, the rest stands in the caption."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as RichTable

from framebench.strategies import FRAMEWORKS, Strategy, find
from framebench.table import BASELINES, SCENARIOS, STRATEGIES, names
from models import spec

GIB = 2**30
HEAD = (
    "framework", "strategy", "peak GiB", "x base", "step ms", "x base", "throughput", "first s", "break-even", "n", "verified",
    "effect", "instrument",
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

    @property
    def key(self) -> str:
        """How documents ask for it: `epyc-2core: transformer train, batch 4, size cpu`."""
        return f"{self.machine}: {self.title}" if self.machine else self.title


def number(value: float | None, form: str, times: float = 1) -> str:
    return "-" if value is None or pd.isna(value) else format(value * times, form)


def mark(value: Any) -> str:
    return "-" if value is None or pd.isna(value) else "yes" if value else "NO"


def cells(r: pd.Series) -> tuple[str, ...]:
    """One row; what has no numbers shows its status, and its reason stands in the notes."""
    if r["status"] != "ok":
        return r["framework"], r["strategy"], r["status"], *["-"] * 10
    return (
        r["framework"],
        r["strategy"],
        number(r["peak_bytes"], ".3f", 1 / GIB),
        number(r["peak_ratio"], ".2f"),
        number(r["step_time_s"], ",.1f", 1e3),
        number(r["time_ratio"], ".2f"),
        f"{number(r['throughput'], ',.1f')} {r['unit']}/s",
        number(r["first_step_s"], ".1f"),
        steps(r["break_even_steps"]),
        str(r["samples"]),
        number(r["worst_error"], ".0e"),
        mark(r["effect_proven"]),
        r["peak_instrument"] or "-",
    )


def steps(value: float) -> str:
    """Steps after which a longer first step has paid."""
    return "-" if pd.isna(value) else "never" if np.isinf(value) else f"{value:,.0f}"


def groups(table: pd.DataFrame, *columns: str) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """The parts of the table that agree in these columns, sorted by them."""
    for key, group in table.groupby(list(columns), sort=True):
        yield tuple(key), group  # type: ignore[arg-type]


def strategies(table: pd.DataFrame) -> Iterator[Comparison]:
    """Framework x strategy, for each machine, workload, size, scenario and batch."""
    for (machine, workload, size, scenario, batch), group in groups(table, "machine", "workload", "size", "scenario", "batch"):
        order = {f: i for i, f in enumerate(FRAMEWORKS)}, {s: i for i, s in enumerate(names(scenario))}
        ranked = group.assign(f=group["framework"].map(order[0]), s=group["strategy"].map(order[1]))
        ranked = ranked.sort_values(["f", "framework_version", "s"])
        shown = shares(group)
        yield Comparison(
            f"{workload} {scenario}, batch {batch}, size {size}",
            f"base = {BASELINES[scenario]} of the same framework; GiB = 2^30 bytes; compare peaks only under one "
            f"instrument. break-even = steps until a longer first step has paid. verified = largest relative error "
            f"against float64. {conditions(group)}",
            (*HEAD, *shown),
            tuple((*cells(r), *(number(r[column], ".1%") for column in shown.values())) for _, r in ranked.iterrows()),
            notes=tuple(
                dict.fromkeys(
                    f"{r['framework']} {r['strategy']}: {r['status']}: {r['reason']}"
                    for _, r in ranked.iterrows()
                    if r["status"] != "ok"
                )
            ),
            machine=machine,
        )


def shares(group: pd.DataFrame) -> dict[str, str]:
    """Title and column of the shares of the step time that are worth a column in this group."""
    columns = {"waiting": "wait_share", "collector": "collector_share"}
    return {title: column for title, column in columns.items() if group[column].max() > 0.01}


def frameworks(table: pd.DataFrame) -> Iterator[Comparison]:
    """The frameworks against each other by `host.rss`, the one instrument they share on a CPU: baselines only."""
    chosen = table[(table["strategy"] == table["scenario"].map(BASELINES)) & table["host_rss_bytes"].notna()]
    for (machine, scenario), group in groups(chosen, "machine", "scenario"):
        wide = group.assign(gib=group["host_rss_bytes"] / GIB, ms=group["step_time_s"] * 1e3)
        pivot = wide.pivot_table(index=["workload", "size", "batch"], columns="framework", values=["gib", "ms"])
        present = [f for f in FRAMEWORKS if f in set(group["framework"])]
        rows = tuple(
            (*(str(part) for part in index), *(number(r.get(("gib", f)), ".3f") for f in present),
             *(number(r.get(("ms", f)), ",.1f") for f in present))
            for index, r in zip(pivot.index.to_list(), pivot.to_dict("records"))
        )  # fmt: skip
        head = ("workload", "size", "batch", *(f"{f} GiB" for f in present), *(f"{f} ms" for f in present))
        yield Comparison(
            f"Frameworks side by side, {scenario} ({BASELINES[scenario]})",
            f"peak by host.rss in GiB (2^30 bytes), median step time in ms. {conditions(group)}",
            head,
            rows,
            machine=machine,
        )


def all_of(table: pd.DataFrame) -> list[Comparison]:
    """Every comparison that the rows give."""
    return [*strategies(table), *frameworks(table)]


def support() -> dict[str, Comparison]:
    """The support matrix by scenario: every strategy in every framework, with how or why not."""
    return {scenario: matrix(scenario) for scenario in SCENARIOS}


def matrix(scenario: str) -> Comparison:
    stage = SCENARIOS[scenario]
    rows = []
    for strategy in (find(scenario, name) for name in names(scenario)):
        texts = [f"{c.kind}: {c.why}" for c in (strategy.cells[f] for f in FRAMEWORKS)]
        exceptions = [f"{where}: {why}" for where, why in strategy.exceptions.items()]
        rows.append((strategy.name, "; ".join([strategy.summary, *exceptions]), where_it_exists(strategy, stage.workloads),
                     *texts, strategy.effect))  # fmt: skip
    head = ("strategy", "what it does", "workloads", *FRAMEWORKS, "proof of effect")
    caption = f"One step: {stage.summary}. Baseline: {stage.baseline}. Generated from framebench/table.py."
    return Comparison(f"Strategies: {scenario}", caption, head, tuple(rows), left=len(head))


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
    caption = "Any others may be combined as a+b, in one scenario. Generated from framebench/table.py."
    return Comparison("Pairs that make no sense", caption, ("strategies", "why"), tuple(rows))


def of_the_table() -> list[Comparison]:
    """What documents can show without any record."""
    return [*support().values(), exclusions()]


def conditions(group: pd.DataFrame) -> str:
    """What was held constant, and where it was measured."""

    def one(column: str) -> str:
        return ", ".join(sorted({str(v) for v in group[column].dropna()})) or "unknown"

    versions = sorted({f"{f} {v}" for f, v in zip(group["framework"], group["framework_version"]) if v})
    days = sorted({m[:10] for m in group["measured_at"]})
    commits = sorted({(c or "unknown")[:10] for c in group["commit"]})
    measured = " to ".join(dict.fromkeys((days[0], days[-1])))
    return (
        f"Machine {one('machine')} ({one('cpu')}, device {one('device')}), threads {one('threads').replace('.0', '')}; "
        f"calibration {one('calibration')}; {', '.join(versions)}; measured {measured} at {', '.join(commits)}."
    )


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
