"""Intervals of the error by kind of prediction, and how they cover families that were left out."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import ceil

from framebench.analysis.rendering import Table
from framebench.devices.needs import ERRORS, TITLES, ErrorInterval, Kind
from studies.prediction_errors.samples import Sample

SHARE = 0.9  # of the rows of each family that are within a side of the interval
DIGITS = 4  # of a share that is stored: a hundredth of a percent


def compute_intervals(samples: Sequence[Sample]) -> dict[Kind, ErrorInterval]:
    """Return the interval of each kind, from all of its samples."""
    return {kind: compute_interval(select(samples, kind)) for kind in TITLES}


def select(samples: Iterable[Sample], kind: Kind) -> list[Sample]:
    """Return the samples of a kind of prediction.

    A rank's step is a step too: what is wrong with one on a single GPU is wrong with a rank's.
    """
    kinds = ("torch", "torch, ranks") if kind == "torch, ranks" else (kind,)
    return [sample for sample in samples if sample.kind in kinds]


def compute_interval(samples: Sequence[Sample]) -> ErrorInterval:
    """Return the interval that covers nine of ten rows of every family, on either side.

    The family that is predicted worst decides each side: to average over families would promise
    for a new one what holds for the average.
    """
    families = sorted({sample.family for sample in samples})
    lowest, highest = 0.0, 0.0
    for family in families:
        errors = [sample.error for sample in samples if sample.family == family]
        highest = max(highest, find_ninth(errors))
        lowest = min(lowest, -find_ninth([-error for error in errors]))
    return ErrorInterval(
        low=round(lowest, DIGITS),
        high=round(highest, DIGITS),
        median=round(statistics.median(abs(sample.error) for sample in samples), DIGITS),
        # a row is counted once, whichever assumption of cuBLAS's workspaces it is predicted with
        rows=len({(sample.source, sample.family, sample.measured) for sample in samples}),
        families=len(families),
    )


def find_ninth(errors: Sequence[float]) -> float:
    """Return the error that nine of ten do not exceed."""
    ordered = sorted(errors)
    return ordered[ceil(SHARE * len(ordered)) - 1]


def write(samples: Sequence[Sample]) -> None:
    """Write the intervals where the package reads them."""
    stored = {kind: asdict(interval) for kind, interval in compute_intervals(samples).items()}
    ERRORS.write_text(json.dumps(stored, indent=1) + "\n")


def tabulate_left_out(samples: Sequence[Sample]) -> Table:
    """Return how each family fares with the interval of the others of its kind."""
    rows = []
    for kind in TITLES:
        of_kind = select(samples, kind)
        families = {sample.family for sample in samples if sample.kind == kind}
        for family in sorted(families):
            left_out = [sample for sample in of_kind if sample.family == family]
            others = [sample for sample in of_kind if sample.family != family]
            if not others:
                continue
            interval = compute_interval(others)
            fitting = [sample for sample in left_out if sample.error <= interval.high]
            within = [sample for sample in fitting if sample.error >= interval.low]
            rows.append(
                (
                    TITLES[kind],
                    family,
                    interval.describe(),
                    f"{len(within)} of {len(left_out)}",
                    f"{len(fitting)} of {len(left_out)}",
                )
            )
    return Table.of_text(
        "Families left out",
        "The interval is that of the other families of the kind. needs no more: rows of the family "
        "that were not above it, which is what an answer of 'fits' relies on.",
        ("prediction", "family left out", "interval of the others", "within", "needs no more"),
        rows,
        left=3,
    )
