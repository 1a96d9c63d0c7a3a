"""What each rank of a case over several holds and needs: the fullest and the emptiest, never a sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

import pandas as pd

from framebench.analysis.comparison import DETAIL, ESSENTIAL, MIB, Comparison, Shown
from framebench.analysis.frames import rows
from framebench.analysis.selection import counting, of_one_version, select_cases
from framebench.records.record import Record
from framebench.strategies.registry import OVER_RANKS
from framebench.strategies.strategy import FRAMEWORKS

HELD = ("parameters", "copy of the weights", "gradients", "gradient buckets", "optimizer states")
SIZE = Shown("", ",.1f", 1 / MIB)
YES = Shown("", lambda said: "yes" if said else "NO")
SHOWN = {
    "workload": Shown("workload"),
    "framework": Shown("framework"),
    "strategy": Shown("strategy", priority=ESSENTIAL),
    "batch": Shown("batch"),
    "ranks": Shown("ranks"),
    **{name: replace(SIZE, name=name) for name in HELD},
    "fullest_rank_bytes": replace(SIZE, name="fullest peak"),
    "emptiest_rank_bytes": replace(SIZE, name="emptiest peak"),
    "predicted_bytes": replace(SIZE, name="predicted"),
    "off": Shown("predicted / measured - 1", "+.1%"),
    "verified": replace(YES, name="verified", priority=DETAIL),
    "effect_proven": replace(YES, name="effect", priority=DETAIL),
    "peak_instrument": Shown("instrument"),
}
CAPTION = (
    "MiB (2^20 bytes) of one rank: what it holds between two steps, counted from its storages (the most that any rank does); "
    "its peak in a step. Predicted: by framebench predict, without running. JAX's is a device's plan: all "
    "of them are in one process unless the strategy says otherwise; gradients live inside its step. DeepSpeed drops gradients "
    "after the update: they are those that it starts from. "
)


def comparisons(records: Iterable[Record]) -> Iterator[Comparison]:
    """A table for each machine, scenario and size that has any."""
    kept = [r for r in of_one_version(counting(records)) if r.parsed.ranks > 1]
    measured = {(m.newest.provenance.machine, m.newest.case): m.read for m in select_cases(kept)}
    every = [vars(row) | held(measured[row.machine, row.case]) for row in rows(kept)]
    for (machine, scenario, size), group in groupby(sorted(every, key=place), key=lambda row: place(row)[:3]):
        table = pd.DataFrame(list(group))
        table["off"] = table["predicted_bytes"].astype(float) / table["fullest_rank_bytes"].astype(float) - 1
        versions = ", ".join(sorted(set(table["framework"] + " " + table["framework_version"].fillna("-"))))
        yield Comparison(
            f"Over ranks: {scenario}, size {size}", f"{CAPTION}Machine {machine}; {versions}.", _with_status(table), SHOWN,
            left=3, machine=str(machine), cases=tuple(table["case"]),
        )  # fmt: skip


def place(row: dict[str, object]) -> tuple[object, ...]:
    names, strategy = [name for _, name in OVER_RANKS], str(row["strategy"])
    order = max(names.index(part) for part in strategy.split("+") if part in names)
    of_table = row["machine"], row["scenario"], row["size"]
    return *of_table, row["workload"], FRAMEWORKS.index(str(row["framework"])), order, strategy, row["ranks"]


def held(record: Record) -> dict[str, int | None]:
    """The most that any rank holds."""
    return {name: max((rank.held[name] for rank in record.ranks if name in rank.held), default=None) for name in HELD}


def _with_status(table: pd.DataFrame) -> pd.DataFrame:
    """A case without numbers has its status in the place of the first."""
    shown_table = table.astype(object)
    shown_table.loc[shown_table["status"] != "ok", "parameters"] = shown_table["status"]
    return shown_table
