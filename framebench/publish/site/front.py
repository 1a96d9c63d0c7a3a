"""What the front page lets a reader choose from: every measured strategy, as data for `static/front.js`.

Which rows may answer, and which of them needs least, is decided by `framebench.analysis.answers`; the script only leaves out
what a budget does not hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.answers import describe_cost, rank_savings, select_comparable
from framebench.analysis.comparison import MIB
from framebench.analysis.figures import page
from framebench.analysis.tables import is_on_gpu
from framebench.publish.site.links import case_page
from framebench.publish.site.machine import Machine
from framebench.publish.site.titles import TRYING, at, title
from framebench.strategies.registry import baseline_of, look_up

FILE = "static/data.js"


def script(machines: Iterable[Machine]) -> str:
    """A script that does nothing but hold the data."""
    return f'"use strict";\nconst GROUPS = {json.dumps([g for m in machines for g in groups(m)], separators=(",", ":"))};\n'


def groups(machine: Machine) -> Iterator[dict[str, Any]]:
    """What is compared with each other: one workload, scenario, size and batch. The one with most strategies comes first, the
    size for trying out last."""
    used = machine.shown[~machine.shown["only_for_claims"]]
    every = used[used["shared_bytes"].notna()].groupby(["workload", "scenario", "size", "batch"])
    made = [select_comparable(rows.order_by_catalog(group)) for _, group in every]
    comparable = [group for group in made if len(group)]
    for group in sorted(comparable, key=lambda one: (one["size"].iloc[0] == TRYING, -len(one))):
        yield {"machine": machine.name, **_about(group.iloc[0]), **_constant(group), "rows": [*_points(machine.name, group)]}


def _about(first: pd.Series) -> dict[str, str]:
    scenario = str(first["scenario"])
    return {"workload": title(str(first["workload"])), "scenario": title(scenario), "batch": at(first["batch"], first["size"])}


def _constant(group: pd.DataFrame) -> dict[str, Any]:
    """What all rows share. They are ranked by their ratio to PyTorch's baseline where all that were timed have one."""
    paired = group["torch_ratio"].notna() == group["throughput"].notna()
    base = baseline_of(str(group["scenario"].iloc[0]))
    whole = f"what {base} has in use" if is_on_gpu(group) else f"{base}'s peak"
    return {
        "unit": str(group["unit"].iloc[0]), "peak": rows.peak_label(group), "whole": whole, "paired": bool(paired.all())
    }  # fmt: skip


def _points(machine: str, group: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """A row for each strategy, without what is absent."""
    smallest = {found[0].case for _, found in rank_savings(group) if found}
    for r in rows.each(group):
        axis = look_up(r.scenario, r.strategy).axis
        point = {
            "framework": r.framework, "strategy": r.strategy, "family": axis if axis in page.MARKERS else "other settings",
            "mib": round(r.shared_bytes / MIB, 1), "share": round(r.relative_peak, 3), "base": bool(r.baseline),
            "least": r.case in smallest, "href": case_page(machine, r.case),
        }  # fmt: skip
        yield point | _speed(r)


def _speed(r: Any) -> dict[str, Any]:
    """Throughput with its range over blocks, and the cost in time in words."""
    if pd.isna(r.throughput):
        return {"cost": "not timed"}
    ends = [round(r.throughput * r.step_time_s / step, 2) for step in (r.step_high_s, r.step_low_s)]
    speed = {
        "rate": round(r.throughput, 2),
        "range": ends,
        "cost": "" if r.baseline or pd.isna(r.time_ratio) else describe_cost(r),
    }
    return speed if pd.isna(r.torch_ratio) else speed | {"ratio": round(r.torch_ratio, 4)}
