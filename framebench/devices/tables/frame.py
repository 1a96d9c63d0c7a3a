"""Predictions as a DataFrame, which `framebench.planned()` returns: one row for each case on a
device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from framebench.analysis.frames import (
    Column,
    column,
    describe_columns,
    order_releases,
    parse_release,
)
from framebench.analysis.rendering import Table
from framebench.devices.catalog import BY_NAME
from framebench.devices.needs import estimate_needs
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.store import every
from framebench.records.pins import find_pinned_version
from framebench.strategies.registry import list_strategies
from framebench.suite.case import Case


@dataclass(frozen=True)
class PlannedRow:
    """One case on one device, flat."""

    case: str = column("", "workload/framework/scenario/strategy/bN/size")
    workload: str = column("", "the model")
    framework: str = column("", "torch or jax; Jittor is not planned")
    scenario: str = column("", "train or eval")
    strategy: str = column("", "how memory is saved")
    batch: int = column("samples", "in one step")
    size: str = column("", "of model and input")
    ranks: int = column("", "devices that share the step; bytes are those of one")
    device: str = column("", "as `framebench devices` names it")
    device_bytes: int = column("bytes", "of its memory that a program can have")
    framework_version: str = column(
        "",
        "release whose step was planned, in the order of releases: 0.9.2 is before 0.10.2",
        dtype="category",
    )
    pinned: bool = column("", "whether it is the release that the suite measures")
    source: str | None = column(
        "", "compiler.plan: XLA's own plan; allocator.simulated: a simulated step of PyTorch"
    )
    outcome: str = column(
        "", "planned, refused (does not fit), not planned (nothing can tell) or failed"
    )
    reason: str | None = column("", "why there is no prediction, or why it does not fit")
    used_bytes: int | None = column("bytes", "JAX: the plan; PyTorch: the most in use at once")
    reserved_bytes: int | None = column(
        "bytes", "what the framework takes: JAX the plan; PyTorch what its allocator holds"
    )
    refused_bytes: int | None = column(
        "bytes", "that it would take, where it does not fit and that is known"
    )
    needs_bytes: int | None = column(
        "bytes",
        "of the device's memory that are sure to be enough: reserved_bytes, the error of "
        "predictions and the largest context (docs/reading.md#what-a-job-needs)",
    )
    temporary_bytes: int | None = column("bytes", "of JAX's plan: neither argument nor result")
    ratio: float | None = column(
        "", "used_bytes over the baseline's: same device, release, framework, batch and size"
    )
    baseline: bool = column("", "whether it is the scenario's baseline")
    commit: str | None = column("", "of framebench, which planned it")


COLUMNS = describe_columns(PlannedRow)


def columns() -> Table:
    """Return the table of columns for docs/data.md."""
    caption = "Generated from framebench/devices/tables/frame.py. Nothing in it is measured."
    return Table.of_text(
        "Columns of framebench.planned()",
        caption,
        Column._fields,
        COLUMNS,
        left=len(Column._fields),
    )


def load(results: Path) -> pd.DataFrame:
    """Return the predictions that are cached in the folder."""
    return frame(every(results))


def frame(predictions: Iterable[Planned]) -> pd.DataFrame:
    """Return one row for each prediction, by device, then in the order of the catalog's
    strategies.
    """
    cached = list(predictions)
    used = {
        (planned.device, planned.framework_version, planned.case): planned.used_bytes
        for planned in cached
    }
    rows = []
    for planned in cached:
        case = Case.from_id(planned.case)
        baseline = replace(case, strategy=case.stage.baseline)
        base_bytes = used.get((planned.device, planned.framework_version, baseline.id))
        rows.append(make_row(planned, case, case == baseline, base_bytes))
    rows.sort(key=order_of)
    table = pd.DataFrame([vars(row) for row in rows], columns=[column.name for column in COLUMNS])
    table["framework_version"] = order_releases(table["framework_version"])
    return table.astype({column.name: column.dtype for column in COLUMNS})


def order_of(row: PlannedRow) -> tuple[object, ...]:
    """Return what rows are sorted by. Strategies that a scenario has no more come last."""
    strategies = list_strategies(row.scenario)
    place = strategies.index(row.strategy) if row.strategy in strategies else len(strategies)
    device = list(BY_NAME).index(row.device)
    return (
        device,
        row.workload,
        row.scenario,
        row.size,
        row.framework,
        parse_release(row.framework_version),
        row.batch,
        place,
        row.case,
    )


def make_row(planned: Planned, case: Case, is_baseline: bool, base_bytes: int | None) -> PlannedRow:
    """Return a prediction as a row. `base_bytes` are those of its baseline."""
    used_bytes = planned.used_bytes
    return PlannedRow(
        case=planned.case,
        workload=case.workload,
        framework=case.framework,
        scenario=case.scenario,
        strategy=case.strategy,
        batch=case.batch,
        size=case.size,
        ranks=case.ranks,
        device=planned.device,
        device_bytes=BY_NAME[planned.device].memory_bytes,
        framework_version=planned.framework_version,
        pinned=planned.framework_version == find_pinned_version(planned.framework),
        source=planned.source,
        outcome=planned.outcome,
        reason=planned.reason,
        used_bytes=used_bytes,
        reserved_bytes=planned.peak_bytes,
        refused_bytes=planned.needs_bytes,
        needs_bytes=find_needs(planned),
        temporary_bytes=planned.parts.get("temporaries"),
        ratio=used_bytes / base_bytes if used_bytes and base_bytes else None,
        baseline=is_baseline,
        commit=planned.origin.commit,
    )


def find_needs(planned: Planned) -> int | None:
    """Return the bytes that the case is sure to fit in; None where nothing was predicted."""
    reserved = planned.peak_bytes if planned.peak_bytes is not None else planned.needs_bytes
    if reserved is None:
        return None
    return estimate_needs(reserved, planned.interval.high, BY_NAME[planned.device])
