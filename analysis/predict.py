"""The peak at another batch, from the peaks that were measured: a fixed part and one per sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.reports.breakdown import floor_of
from analysis.tables import Comparison, conditions, groups, lines_of, mib, missing, number
from framebench.suite.hypothetical import named
from framebench.suite.strategy import FRAMEWORKS

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE = 0.95
# one line is fitted to what agrees in all of these
ALIKE = (
    "machine", "workload", "framework", "framework_version", "scenario", "strategy", "size", "peak_instrument", "protocol",
)  # fmt: skip


class TooFew(ValueError):
    """A line needs two batches; the message says which there are."""


class Estimate(NamedTuple):
    """95 % interval by Student's t; None with two batches, which a line always fits."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """Least squares through (batch, bytes)."""

    batches: tuple[int, ...]
    fixed: Estimate
    per_sample: Estimate
    residual: float | None  # standard error of a measurement about the line

    def at(self, batch: int) -> Estimate:
        """The peak to expect at this batch, with the interval for one new measurement."""
        x, n = np.array(self.batches, float), len(self.batches)
        spread = 1 + 1 / n + (batch - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
        return estimate(self.fixed.value + self.per_sample.value * batch, self.residual, spread, n)


def estimate(value: float, residual: float | None, spread: float, n: int) -> Estimate:
    if residual is None:
        return Estimate(value)
    half = student(n - 2) * residual * spread**0.5
    return Estimate(value, value - half, value + half)


@cache
def student(freedom: int) -> float:
    """The quantile of Student's t that leaves CONFIDENCE between itself and its negative."""
    from scipy.special import stdtrit  # scipy.stats, which calls it, takes four times as long to import

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def fit(batches: Sequence[int], peaks: Sequence[float]) -> Line:
    """Raises TooFew."""
    x, y, n = np.array(batches, float), np.array(peaks, float), len(batches)
    if len(set(batches)) < 2:
        raise TooFew(f"a line needs peaks at two batches; there are: {', '.join(map(str, sorted(set(batches)))) or 'none'}")
    deviation = x - x.mean()
    square = float((deviation**2).sum())
    slope = float(deviation @ y) / square
    fixed = float(y.mean() - slope * x.mean())
    residual = float((((y - fixed - slope * x) ** 2).sum() / (n - 2)) ** 0.5) if n > 2 else None
    return Line(
        tuple(batches),
        estimate(fixed, residual, 1 / n + float(x.mean()) ** 2 / square, n),
        estimate(slope, residual, 1 / square, n),
        residual,
    )


def alike(table: pd.DataFrame, at_least: int) -> Iterator[list[dict[str, Any]]]:
    """Measured peaks that differ in the batch alone, in its order; those with so many batches."""
    measured = table[(table["status"] == "ok") & table["peak_bytes"].notna() & table["framework_version"].notna()]
    for _, group in groups(lines_of(measured), *ALIKE):
        if len({r["batch"] for r in group}) >= at_least:
            yield sorted(group, key=lambda r: r["batch"])


def through(group: list[dict[str, Any]]) -> Line:
    """The line through these peaks. Raises TooFew."""
    return fit([r["batch"] for r in group], [r["peak_bytes"] for r in group])


def predictions(table: pd.DataFrame, case_id: str) -> list[tuple[dict[str, Any], Line]]:
    """Lines for this case's batch: one for each machine, version and instrument, with a row that says which."""
    case = named(case_id)
    for column in ("workload", "framework", "scenario", "strategy", "size"):
        table = table[table[column] == getattr(case, column)]
    return [(group[-1], through(group)) for group in alike(table, at_least=2)]


def held_out(table: pd.DataFrame) -> pd.DataFrame:
    """The peak at the largest batch against what the smaller ones predict: one row for each group with three batches or more.

    `error` is that of a line through the peaks, `error_over_floor` that of a line through what they exceed the floor by, which
    knows that gradients and activations need not be there together.
    """
    import pandas as pd

    return pd.DataFrame([held_out_of(group) for group in alike(table, at_least=3)])


def held_out_of(group: list[dict[str, Any]]) -> dict[str, Any]:
    *known, last = group
    floors = [float(floor_of(r["case"]).total) for r in group]
    line = through(known)
    over = fit(line.batches, [r["peak_bytes"] - least for r, least in zip(known, floors)])
    expected, peak = line.at(last["batch"]), last["peak_bytes"]
    return (
        last
        | {"known": line.batches, "fixed": line.fixed.value, "per_sample": line.per_sample.value}
        | {"predicted": expected.value, "low": expected.low, "high": expected.high}
        | {"error": expected.value / peak - 1}
        | {"error_over_floor": (over.at(last["batch"]).value + floors[-1]) / peak - 1}
    )


HEAD = (
    "workload", "framework", "strategy", "from batches", "batch", "fixed", "per sample", "predicted", "95 % interval",
    "measured", "error", "error, floor known", "instrument",
)  # fmt: skip


def comparisons(table: pd.DataFrame) -> Iterator[Comparison]:
    """The held-out largest batch, for each machine, scenario and size."""
    found = held_out(table)
    if found.empty:
        return
    for (machine, scenario, size), group in groups(lines_of(found), "machine", "scenario", "size"):
        ranked = sorted(group, key=lambda r: (r["workload"], FRAMEWORKS.index(r["framework"]), r["strategy"]))
        yield Comparison(
            f"Prediction of the peak at the largest batch, {scenario}, size {size}",
            "MiB (2^20 bytes). A straight line through the peaks at the smaller batches (least squares) predicts the largest; "
            "interval: Student's t for one new measurement, none from two batches. Floor known: the line is fitted to what the "
            f"peaks exceed the floor by. {conditions(group)}",
            HEAD,
            tuple(cells(r) for r in ranked),
            left=4,
            machine=machine,
        )


def cells(r: dict[Any, Any]) -> tuple[str, ...]:
    interval = "-" if missing(r["low"]) else f"{mib(r['low'])} to {mib(r['high'])}"
    return (
        r["workload"],
        r["framework"],
        r["strategy"],
        ", ".join(map(str, r["known"])),
        str(r["batch"]),
        mib(r["fixed"]),
        mib(r["per_sample"], ",.2f"),
        mib(r["predicted"]),
        interval,
        mib(r["peak_bytes"]),
        number(r["error"], "+.1%"),
        number(r["error_over_floor"], "+.1%"),
        r["peak_instrument"],
    )
