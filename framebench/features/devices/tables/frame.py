"""Predictions as a DataFrame, which `framebench.planned()` returns: one row for each case on a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple, get_type_hints

import pandas as pd

from framebench.analysis.comparison import Comparison
from framebench.analysis.frames import Column, column
from framebench.features.devices.catalog import BY_NAME, DEVICES
from framebench.features.devices.plans.planned import Planned
from framebench.features.devices.plans.store import every
from framebench.records.pins import pinned_version
from framebench.suite.case import Case
from framebench.suite.registry import names


class Row(NamedTuple):
    """One case on one device, flat. Annotated with type, unit and meaning, for `COLUMNS`."""

    case: Annotated[str, "", "workload/framework/scenario/strategy/bN/size"]
    workload: Annotated[str, "", "the model"]
    framework: Annotated[str, "", "torch or jax; Jittor is not planned"]
    scenario: Annotated[str, "", "train or eval"]
    strategy: Annotated[str, "", "how memory is saved"]
    batch: Annotated[int, "samples", "in one step"]
    size: Annotated[str, "", "of model and input"]
    ranks: Annotated[int, "", "devices that share the step; bytes are those of one"]
    device: Annotated[str, "", "as `framebench devices` names it"]
    device_bytes: Annotated[int, "bytes", "of its memory that a program can have"]
    framework_version: Annotated[str, "", "release whose step was planned"]
    pinned: Annotated[bool, "", "whether it is the release that the suite measures"]
    source: Annotated[str | None, "", "compiler.plan: XLA's own plan; allocator.simulated: a simulated step of PyTorch"]
    outcome: Annotated[str, "", "planned, refused (does not fit), not planned (nothing can tell) or failed"]
    reason: Annotated[str | None, "", "why there is no prediction, or why it does not fit"]
    used_bytes: Annotated[int | None, "bytes", "JAX: the plan; PyTorch: the most in use at once"]
    reserved_bytes: Annotated[int | None, "bytes", "what the framework takes: JAX the plan; PyTorch what its allocator holds"]
    needs_bytes: Annotated[int | None, "bytes", "that it would take, where it does not fit and that is known"]
    temporary_bytes: Annotated[int | None, "bytes", "of JAX's plan: neither argument nor result"]
    ratio: Annotated[float | None, "", "used_bytes over the baseline's: same device, release, framework, batch and size"]
    baseline: Annotated[bool, "", "whether it is the scenario's baseline"]
    commit: Annotated[str | None, "", "of framebench, which planned it"]


COLUMNS = tuple(column(name, annotated) for name, annotated in get_type_hints(Row, include_extras=True).items())


def columns() -> Comparison:
    """For docs/data.md."""
    caption = "Generated from framebench/features/devices/tables/frame.py. Nothing in it is measured."
    return Comparison.of_text("Columns of framebench.planned()", caption, Column._fields, COLUMNS, left=len(Column._fields))


def load(results: Path) -> pd.DataFrame:
    """What is kept in the folder."""
    return frame(every(results))


def frame(predictions: Iterable[Planned]) -> pd.DataFrame:
    """By device, then in the order of the catalog's strategies."""
    kept = list(predictions)
    used = {_place(one, one.case): used_bytes(one) for one in kept}
    rows = sorted((_row(one, used) for one in kept), key=_order)
    return pd.DataFrame(rows, columns=Row._fields).astype({c.name: c.dtype for c in COLUMNS})


def used_bytes(planned: Planned) -> int | None:
    """Of a simulation what was in use at once, of a plan all of it."""
    return planned.parts.get("allocated", planned.peak_bytes)


def _place(planned: Planned, case: str) -> tuple[str, str, str]:
    return planned.device, planned.framework_version, case


def _order(row: Row) -> tuple[object, ...]:
    """Strategies that a scenario has no more come last."""
    strategies = names(row.scenario)
    place = strategies.index(row.strategy) if row.strategy in strategies else len(strategies)
    device = [one.name for one in DEVICES].index(row.device)
    return device, row.workload, row.scenario, row.size, row.framework, row.framework_version, row.batch, place, row.case


def _row(planned: Planned, used: Mapping[tuple[str, str, str], int | None]) -> Row:
    case = Case.of(planned.case)
    baseline = replace(case, strategy=case.stage.baseline)
    own, base = used_bytes(planned), used.get(_place(planned, baseline.id))
    return Row(
        planned.case, case.workload, case.framework, case.scenario, case.strategy, case.batch, case.size, case.ranks,
        planned.device, BY_NAME[planned.device].memory_bytes, planned.framework_version,
        planned.framework_version == pinned_version(planned.framework), planned.source, planned.outcome, planned.reason,
        own, planned.peak_bytes, planned.needs_bytes, planned.parts.get("temporaries"),
        own / base if own and base else None, case == baseline, planned.origin.commit,
    )  # fmt: skip
