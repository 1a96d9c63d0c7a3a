"""The answer in words: the least memory of each framework, and its cost in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.answers import compared, cost, least, timed_elsewhere, with_price
from framebench.analysis.comparison import mib
from framebench.analysis.results import Results
from framebench.features.readme import backing, stands_out
from framebench.models import spec
from framebench.suite.case import DEFAULT_SIZE
from framebench.suite.registry import BASELINES


@dataclass(frozen=True)
class Words:
    """What a document may have in the place of a table."""

    key: str
    lines: tuple[str, ...]

    def markdown(self) -> str:
        return "".join(f"- {line}\n" for line in self.lines)


def every(results: Results) -> list[Words]:
    """Of each machine that has something to compare, and what backs the numbers of all of them."""
    tables = {machine: results.table(machine) for machine in results.machines}
    all_words = [of_training(table, machine, tables) for machine, table in tables.items()]
    all_words += [Words(f"{machine}: what stands out", stands_out.of_machine(table)) for machine, table in tables.items()]
    all_words.append(Words("what backs the numbers", backing.describe_backing(results.records, results.root)))
    return [words for words in all_words if words.lines]


def of_training(table: pd.DataFrame, machine: str, tables: Mapping[str, pd.DataFrame] | None = None) -> Words:
    """A line for each workload, from rows as `framebench.load` gives them. `tables`: of other machines too, whose times stand
    where this one has none."""
    elsewhere = timed_elsewhere({name: every for name, every in (tables or {}).items() if name != machine})
    mine = table[(table["scenario"] == "train") & (table["size"] == DEFAULT_SIZE)]
    lines = []
    # language models, which most people ask about, come first
    for workload in sorted(map(spec.workload, spec.names()), key=lambda w: w.unit != "tokens"):
        group = rows.shown(mine[mine["workload"] == workload.name])
        if phrases := [line(*answer, elsewhere) for answer in least(compared(group))]:
            lines.append(f"**{workload.title}**, training at batch {rows.usual_batch(group)}. {' '.join(phrases)}")
    return Words(f"{machine}: in words", tuple(lines))


def line(framework: str, saving: list[Any], elsewhere: dict[Any, Any]) -> str:
    """The least memory; where that was not timed, also the least of what was."""
    if not saving:
        return f"{framework}: no strategy saves memory."
    return f"{framework}: {', or '.join(_needs(row, elsewhere) for row in with_price(saving))}."


def _needs(row: Any, elsewhere: dict[Any, Any]) -> str:
    share = f"{row.shared_ratio:.0%} of `{BASELINES[row.scenario]}`"  # of the bytes that stand before it
    price = cost(row)
    if pd.isna(row.time_ratio) and (other := elsewhere.get((row.case, row.device))):
        price = f"{cost(other[1])} on `{other[0]}`"
    return f"{mib(row.shared_bytes, ',.0f')} MiB with `{row.strategy}` ({share}, {price})"
