"""Write every measured strategy as data for `static/front.js`, the script of the front page.

Which rows may answer, and which of them needs least, is decided by `framebench.analysis.answers`;
the script only leaves out what a budget does not hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.answers import describe_cost, rank_savings, select_comparable
from framebench.analysis.figures import page
from framebench.analysis.rendering import MIB
from framebench.publish.site.links import get_case_page
from framebench.publish.site.machine import Machine
from framebench.publish.site.titles import TRIAL_SIZE, describe_batch, get_title
from framebench.strategies.registry import find_baseline, look_up_strategy

FILE = "static/data.js"


def make_script(machines: Iterable[Machine]) -> str:
    """Return a script that does nothing but hold the data."""
    groups: list[dict[str, object]] = []
    for machine in machines:
        groups += list_groups(machine)
    data = json.dumps(groups, separators=(",", ":"))
    return f'"use strict";\nconst GROUPS = {data};\n'


def list_groups(machine: Machine) -> Iterator[dict[str, object]]:
    """Yield the strategies that are compared with each other, with what they have in common.

    A group is of one workload, scenario, size and batch. The one with the most strategies comes
    first, those of the size for trying out last.
    """
    used = machine.shown[~machine.shown["only_for_claims"]]
    measured = used[used["needs_bytes"].notna()]
    groups = []
    for _, group in measured.groupby(["workload", "scenario", "size", "batch"]):
        comparable = select_comparable(rows.order_by_catalog(group))
        if len(comparable):
            groups.append(comparable)
    for group in sorted(groups, key=group_sort_key):
        yield {
            "machine": machine.name,
            **describe_question(group.iloc[0]),
            **describe_measure(group),
            "rows": list(list_points(machine.name, group)),
        }


def group_sort_key(group: pd.DataFrame) -> tuple[bool, int]:
    """Return the key that `list_groups` sorts by."""
    return group["size"].iloc[0] == TRIAL_SIZE, -len(group)


def describe_question(first: pd.Series) -> dict[str, object]:
    """Return what a reader chooses a group by, from its first row."""
    return {
        "workload": get_title(str(first["workload"])),
        "scenario": get_title(str(first["scenario"])),
        "batch": describe_batch(first["batch"], first["size"]),
    }


def describe_measure(group: pd.DataFrame) -> dict[str, object]:
    """Return the units of a group's axes, and what they are relative to.

    `paired`: all rows that were timed have a ratio to PyTorch's baseline, by which they are ranked.
    """
    is_paired = group["torch_ratio"].notna() == group["throughput"].notna()
    base = find_baseline(str(group["scenario"].iloc[0]))
    return {
        "unit": str(group["unit"].iloc[0]),
        "axis": "memory that a job needs, MiB",
        "whole": f"what {base} needs",
        "paired": bool(is_paired.all()),
    }


def list_points(machine: str, group: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield the numbers of each strategy; what is absent has no key."""
    smallest = {ranked[0].case for _, ranked in rank_savings(group) if ranked}
    for row in rows.iterate_rows(group):
        axis = look_up_strategy(row.scenario, row.strategy).axis
        yield {
            "framework": row.framework,
            "strategy": row.strategy,
            "family": axis if axis in page.MARKERS else page.OTHER,
            "needs": math.ceil(row.needs_bytes / MIB * 10) / 10,  # rounded up, as everywhere
            "peak": round(row.step_bytes / MIB, 1),
            "share": round(row.needs_ratio, 3),
            "base": bool(row.baseline),
            "least": row.case in smallest,
            "href": get_case_page(machine, row.case),
            **describe_speed(row),
        }


def describe_speed(row: Any) -> dict[str, object]:
    """Return the throughput with its range over blocks, and the cost in time in words."""
    if pd.isna(row.throughput):
        return {"cost": "not timed"}
    work = row.throughput * row.step_time_s  # units of one step
    speed: dict[str, object] = {
        "rate": round(row.throughput, 2),
        "range": [round(work / row.step_high_s, 2), round(work / row.step_low_s, 2)],
        "cost": "" if row.baseline or pd.isna(row.time_ratio) else describe_cost(row),
    }
    if pd.notna(row.torch_ratio):
        speed["ratio"] = round(row.torch_ratio, 4)
    return speed
