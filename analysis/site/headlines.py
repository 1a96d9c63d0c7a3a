"""The short answers: by workload and framework the strategy with the lowest peak, the fastest one, and what each costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from analysis import frames
from analysis.statistics import PEAK
from analysis.tables import GIB, Comparison, Line, conditions, groups, missing, number, repeats
from framebench.suite.registry import BASELINES, find
from framebench.suite.strategy import FRAMEWORKS

ALONE = 0.2  # two processes of one case differ by 7 % in the median, now and then by far more: docs/study.md
MAIN = ("train", "eval")  # the scenarios that everyone asks for
HEAD = (
    "workload", "batch", "framework", "base GiB", "base ms", "lowest peak", "GiB", "x base", "step x base", "shortest step",
    "ms", "x base", "peak x base", "instrument",
)  # fmt: skip


def headlines(table: pd.DataFrame) -> Iterator[Comparison]:
    """One table for each machine, scenario and size, of the cases that are comparable."""
    lines = [line for line in frames.current(table).to_dict("records") if comparable(line)]
    for scenario in MAIN:
        yield from of_scenario(scenario, [line for line in lines if line["scenario"] == scenario])


def of_scenario(scenario: str, lines: list[Line]) -> Iterator[Comparison]:
    for (machine, size), group in groups(lines, "machine", "size"):
        rows = [row for _, found in sorted(at_widest(group).items()) for row in answers(found)]
        yield Comparison(
            f"{scenario}, size {size}: least memory and shortest step",
            f"For each workload and framework, of the strategies that leave the mathematics as it is and were seen to take "
            f"effect. base = {BASELINES[scenario]} of the same framework; lower by less than {PEAK.minimum:.0%}, "
            f"shorter by less than {ALONE:.0%} (of one process each) or with overlapping intervals counts as no difference. "
            f"GiB = 2^30 bytes; compare peaks only under one instrument. The batch is the one with most strategies. "
            f"{repeats(group)} {conditions(group)}",
            HEAD,
            tuple(rows),
            left=3,
            machine=machine,
        )  # fmt: skip


def comparable(r: Line) -> bool:
    """Whether its numbers say something about the same work as the baseline's."""
    known = r["status"] == "ok" and not missing(r["peak_ratio"])
    strategy = find(r["scenario"], r["strategy"])
    return known and r["effect_proven"] is True and strategy.same_loss and not strategy.only_for_claims


def at_widest(group: list[Line]) -> dict[Any, list[Line]]:
    """By workload the lines at the batch that has most of them; of several the smallest."""
    best: dict[Any, list[Line]] = {}
    for (workload, _), found in groups(group, "workload", "batch"):
        if len(found) > len(best.get(workload, [])):
            best[workload] = found
    return best


def answers(found: list[Line]) -> Iterator[tuple[str, ...]]:
    """A row for each framework that has its baseline and something to compare with it."""
    for framework in FRAMEWORKS:
        mine = [r for r in found if r["framework"] == framework]
        base = [r for r in mine if r["strategy"] == BASELINES[r["scenario"]]]
        if base and len(mine) > 1:
            lean = [r for r in mine if r["peak_ratio"] < 1 - PEAK.minimum]
            fast = [r for r in mine if r["time_ratio"] < 1 - ALONE and apart(r, base[0])]
            yield answer(
                base[0],
                min(lean, key=lambda r: r["peak_ratio"], default=base[0]),
                min(fast, key=lambda r: r["time_ratio"], default=base[0]),
            )


def apart(fast: Line, base: Line) -> bool:
    """Whether the intervals of the two medians leave a gap; a single step has no interval, and tells nothing."""
    ends = fast["step_high_s"], base["step_low_s"]
    return not any(map(missing, ends)) and bool(ends[0] < ends[1])


def answer(base: Line, lean: Line, fast: Line) -> tuple[str, ...]:
    return (
        base["workload"],
        str(base["batch"]),
        base["framework"],
        number(base["peak_bytes"], ".3f", 1 / GIB),
        number(base["step_time_s"], ",.1f", 1e3),
        "none lower" if lean is base else lean["strategy"],
        number(lean["peak_bytes"], ".3f", 1 / GIB),
        number(lean["peak_ratio"], ".2f"),
        number(lean["time_ratio"], ".2f"),
        "none shorter" if fast is base else fast["strategy"],
        number(fast["step_time_s"], ",.1f", 1e3),
        number(fast["time_ratio"], ".2f"),
        number(fast["peak_ratio"], ".2f"),
        base["peak_instrument"],
    )
