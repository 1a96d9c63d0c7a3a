"""Save the peaks of a `framebench try`, and compare a later one with them: `--save`, `--compare`.

The comparison is meant for a project's own tests, where a change that costs memory must fail.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from framebench.analysis.rendering import Table, format_mib
from framebench.explain.record import Explanation
from framebench.records.record import Part, Record
from framebench.records.store import BadRecord, read_bytes
from framebench.suite.user_file import Fault
from framebench.user_model.table import TableRow

NOISE = 2**19  # bytes by which the peak of the same step differs from run to run
LAYERS = 3  # that grew most, in a message
PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


class StrategyPeak(Part):
    """The peak of one strategy's steady step."""

    strategy: str
    bytes: int
    instrument: str


class SavedPeaks(Part):
    """What a comparison needs of one `framebench try`."""

    format: Literal[1] = 1
    file: str
    framework: str
    scenario: str
    batch: int
    device: str
    versions: dict[str, str]
    peaks: tuple[StrategyPeak, ...]
    explanation: Explanation | None  # of the baseline; None where its peak cannot be explained


@dataclass(frozen=True)
class Change:
    """The peaks of one strategy in two runs, in bytes."""

    strategy: str
    before: int
    after: int

    @property
    def share(self) -> float:
        """Return the growth relative to before."""
        return self.after / self.before - 1

    def is_beyond(self, threshold: float) -> bool:
        """Return whether the peak grew by more than this share, and by more than noise."""
        return self.share > threshold and self.after - self.before > NOISE


def parse_threshold(text: str) -> float:
    """Return the share that a text such as `2%` names. Raises Fault."""
    match = PERCENT.fullmatch(text)
    if match is None:
        raise Fault(f"--threshold {text!r} is no percentage; write for instance 2%")
    return float(match[1]) / 100


def collect_peaks(
    rows: list[TableRow],
    records: list[Record],
    explanation: Explanation | None,
) -> SavedPeaks:
    """Return what is saved of these rows, which are of one model. Raises Fault without any peak."""
    peaks = []
    for row in rows:
        if row["usable"]:
            peak = StrategyPeak(
                strategy=row["strategy"],
                bytes=int(row["peak_bytes"]),
                instrument=row["peak_instrument"],
            )
            peaks.append(peak)
    if not peaks:
        raise Fault("no strategy came out right, so that there is no peak to save or compare")
    provenance = records[-1].provenance
    first = rows[0]
    return SavedPeaks(
        file=first["size"],
        framework=first["framework"],
        scenario=first["scenario"],
        batch=int(first["batch"]),
        device=str(provenance.hardware.get("device", "")),
        versions=provenance.versions,
        peaks=tuple(peaks),
        explanation=explanation,
    )


def read_saved(file: Path) -> SavedPeaks:
    """Return what an earlier run has saved. Raises Fault."""
    try:
        return SavedPeaks.model_validate_json(read_bytes(file))
    except BadRecord as error:
        raise Fault(f"--compare {error}; --save {file} writes it") from error
    except ValidationError as error:
        raise Fault(
            f"--compare {file}: nothing that --save of this framebench wrote "
            f"({error.errors()[0]['msg']}); write it again with --save {file}"
        ) from error


def check_comparable(before: SavedPeaks, after: SavedPeaks) -> list[str]:
    """Return what differs between two runs and may move a peak. Raises Fault for other cases."""
    for name in ("framework", "scenario", "batch"):
        old = getattr(before, name)
        new = getattr(after, name)
        if old != new:
            raise Fault(
                f"--compare: {name} was {old} and is {new}: peaks of two cases are not compared; "
                "measure the same one, or save it again with --save"
            )
    remarks = []
    if before.device != after.device:
        remarks.append(f"device was {before.device} and is {after.device}")
    for package in sorted(before.versions.keys() & after.versions.keys()):
        if before.versions[package] != after.versions[package]:
            old = before.versions[package]
            remarks.append(f"{package} was {old} and is {after.versions[package]}")
    return remarks


def list_changes(before: SavedPeaks, after: SavedPeaks) -> list[Change]:
    """Return the strategies of both runs whose peaks were read by the same instrument."""
    old = {peak.strategy: peak for peak in before.peaks}
    changes = []
    for peak in after.peaks:
        earlier = old.get(peak.strategy)
        if earlier is not None and earlier.instrument == peak.instrument:
            changes.append(Change(peak.strategy, earlier.bytes, peak.bytes))
    return changes


def list_missing(before: SavedPeaks, after: SavedPeaks) -> list[str]:
    """Return the strategies that were right before and have no comparable peak now."""
    compared = {change.strategy for change in list_changes(before, after)}
    return [peak.strategy for peak in before.peaks if peak.strategy not in compared]


def make_table(changes: list[Change], threshold: float) -> Table:
    """Return the table of peaks in both runs."""
    cells = []
    for change in changes:
        verdict = "grew" if change.is_beyond(threshold) else "ok"
        before = format_mib(change.before)
        after = format_mib(change.after)
        cells.append((change.strategy, before, after, f"{change.share:+.1%}", verdict))
    return Table.of_text(
        "Peaks against the saved ones",
        f"MiB = 2^20 bytes; grew = by more than {threshold:.1%} and {format_mib(NOISE)} MiB.",
        ("strategy", "saved MiB", "now MiB", "change", "verdict"),
        cells,
        left=1,
    )


def describe_layers(before: SavedPeaks, after: SavedPeaks) -> str:
    """Return which layers hold more at the baseline's peak than before; empty if none is known."""
    if before.explanation is None or after.explanation is None:
        return ""
    # by its full name each: `explain` takes layers that differ in a number for one
    grown = sum_by_layer(after.explanation)
    grown.subtract(sum_by_layer(before.explanation))
    parts = []
    for (layer, kind), size in grown.most_common(LAYERS):
        if size > 0:
            parts.append(f"{kind} of {layer or 'the step'} (+{format_mib(size, ',.2f')} MiB)")
    return f"more at the baseline's peak: {', '.join(parts)}" if parts else ""


def sum_by_layer(explanation: Explanation) -> Counter[tuple[str, str]]:
    """Return the bytes at the peak by layer and kind."""
    sizes: Counter[tuple[str, str]] = Counter()
    for holder in explanation.holders:
        sizes[holder.layer, holder.kind] += holder.bytes
    return sizes
