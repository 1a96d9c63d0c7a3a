"""Two explained steps against each other: what one holds more of at its fullest moment, to the
byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from framebench.analysis.rendering import Table, format_mib
from framebench.explain.record import Explanation
from framebench.explain.table import FINE, LARGEST, fold_numbers
from framebench.records.record import INSTRUMENTS

UNEXPLAINED = "unexplained"
OF_ACCOUNT = "the account"  # in place of an instrument, where none measured both


class PeakPair(NamedTuple):
    """The peaks of two steps in bytes, by one instrument."""

    instrument: str
    base: int
    change: int


class PeakDifference(NamedTuple):
    """Bytes of one layer and kind at the two peaks."""

    layer: str
    kind: str
    base: int
    change: int

    @property
    def difference(self) -> int:
        """Return the bytes that the change has more."""
        return self.change - self.base


def choose_peaks(base: Explanation, change: Explanation) -> PeakPair:
    """Return the peaks by the first instrument that measured both steps; two instruments are never
    subtracted.
    """
    for instrument in INSTRUMENTS:
        if instrument in base.measured and instrument in change.measured:
            return PeakPair(instrument, base.measured[instrument], change.measured[instrument])
    return PeakPair(OF_ACCOUNT, base.peak.bytes, change.peak.bytes)


def list_differences(base: Explanation, change: Explanation) -> list[PeakDifference]:
    """Return the differences by layer and kind, the largest first; they sum to that of the peaks.

    The last row is what was measured and no layer explains.
    """
    base_sizes = sum_by_layer(base)
    change_sizes = sum_by_layer(change)
    rows = []
    for layer, kind in base_sizes.keys() | change_sizes.keys():
        rows.append(PeakDifference(layer, kind, base_sizes[layer, kind], change_sizes[layer, kind]))
    rows.sort(key=lambda row: (-abs(row.difference), row.layer, row.kind))
    peaks = choose_peaks(base, change)
    unexplained = PeakDifference(
        "", UNEXPLAINED, peaks.base - base.peak.bytes, peaks.change - change.peak.bytes
    )
    return [*rows, unexplained]


def sum_by_layer(explanation: Explanation) -> Counter[tuple[str, str]]:
    """Return the bytes by layer and kind. Layers that differ in a number only are one."""
    sizes: Counter[tuple[str, str]] = Counter()
    for holder in explanation.holders:
        sizes[fold_numbers(holder.layer), holder.kind] += holder.bytes
    return sizes


def make_table(base: Explanation, change: Explanation) -> Table:
    """Return the table of the largest differences, the rest, what is unexplained, and the sum, in
    bytes.
    """
    *explained, unexplained = list_differences(base, change)
    rows = explained[:LARGEST]
    if len(explained) > LARGEST:
        rows.append(sum_rows("the rest", explained[LARGEST:]))
    rows += [unexplained, sum_rows("all", [*explained, unexplained])]
    cells = [(r.layer, r.kind, f"{r.base:,}", f"{r.change:,}", f"{r.difference:+,}") for r in rows]
    peaks = choose_peaks(base, change)
    increase = f"{format_mib(peaks.change - peaks.base, f'+{FINE}')} MiB ({describe_ratio(peaks)})"
    caption = (
        f"{peaks.instrument}: {format_mib(peaks.base, FINE)} MiB and "
        f"{format_mib(peaks.change, FINE)} MiB, {increase}. Bytes at the fullest "
        f"moment of a step: the {LARGEST} largest differences; the rows above the last "
        f"sum to it. * stands for any number. Unexplained is what {peaks.instrument} "
        "has beyond the buffers that the account counts."
    )
    notes = [f"counted: {base.how}"]
    if change.how != base.how:
        notes.append(f"counted: {change.how}")
    return Table.of_text(
        f"The difference of two peaks: {describe_case(change)} against {describe_case(base)}",
        caption,
        ("layer", "kind", "against", "case", "difference"),
        cells,
        notes=tuple(notes),
    )


def sum_rows(name: str, rows: Sequence[PeakDifference]) -> PeakDifference:
    """Return the sum of some rows as a row with this name."""
    return PeakDifference(name, "", sum(row.base for row in rows), sum(row.change for row in rows))


def describe_case(explanation: Explanation) -> str:
    """Return case and version, such as `transformer/jax/train/fp32/b4/cpu in jax 0.10.2`."""
    framework = explanation.case.split("/")[1]
    return f"{explanation.case} in {framework} {explanation.versions[framework]}"


def describe_ratio(peaks: PeakPair) -> str:
    """Return the relative difference of the peaks, such as `+29.5%`."""
    if not peaks.base:
        return "from nothing"
    return f"{peaks.change / peaks.base - 1:+.1%}"


def as_json(base: Explanation, change: Explanation) -> dict[str, Any]:
    """Return both peaks and their differences in bytes."""
    peaks = choose_peaks(base, change)
    rows = [
        {**row._asdict(), "difference": row.difference} for row in list_differences(base, change)
    ]
    return {
        "case": change.case,
        "against": base.case,
        "versions": change.versions,
        "against_versions": base.versions,
        "instrument": peaks.instrument,
        "peak": peaks.change,
        "against_peak": peaks.base,
        "difference": peaks.change - peaks.base,
        "rows": rows,
    }
