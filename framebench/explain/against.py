"""Compare two explained steps: what one holds more of at its peak, to the byte."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pandas as pd

from framebench.analysis.rendering import Table, TableColumn, format_mib
from framebench.explain.record import Explanation
from framebench.explain.table import FINE, LARGEST, fold_numbers
from framebench.records.record_base import INSTRUMENTS
from framebench.suite.sequences import drop_duplicates

UNEXPLAINED = "unexplained"
OF_ACCOUNT = "the account"  # in place of an instrument, where none measured both
COLUMNS = {
    "layer": TableColumn("layer"),
    "kind": TableColumn("kind"),
    "base": TableColumn("against", ","),
    "change": TableColumn("case", ","),
    "difference": TableColumn("difference", "+,"),
}


class PeakPair(NamedTuple):
    """The peaks of two steps in bytes, by one instrument."""

    instrument: str
    base: int
    change: int


def choose_peaks(base: Explanation, change: Explanation) -> PeakPair:
    """Return the peaks by the first instrument that measured both steps.

    Peaks of two instruments are never subtracted.
    """
    for instrument in INSTRUMENTS:
        if instrument in base.measured and instrument in change.measured:
            return PeakPair(instrument, base.measured[instrument], change.measured[instrument])
    return PeakPair(OF_ACCOUNT, base.peak.bytes, change.peak.bytes)


def list_differences(base: Explanation, change: Explanation) -> pd.DataFrame:
    """Return the differences in bytes by layer and kind, the largest first.

    They sum to the difference of the peaks. Layers whose names differ in a number only share a row.
    The last row is what was measured beyond the layers.
    """
    # a holder of one step counts as 0 in the other
    sizes = pd.DataFrame({"base": sum_by_layer(base), "change": sum_by_layer(change)})
    rows = sizes.fillna(0).astype(int).rename_axis(["layer", "kind"]).reset_index()
    rows["size"] = (rows["change"] - rows["base"]).abs()
    rows = rows.sort_values(["size", "layer", "kind"], ascending=[False, True, True])
    peaks = choose_peaks(base, change)
    unexplained = {
        "layer": "",
        "kind": UNEXPLAINED,
        "base": peaks.base - base.peak.bytes,
        "change": peaks.change - change.peak.bytes,
    }
    rows = rows.drop(columns="size")
    rows = pd.concat([rows, pd.DataFrame([unexplained])], ignore_index=True)
    return rows.assign(difference=rows["change"] - rows["base"])


def sum_by_layer(explanation: Explanation) -> pd.Series:
    """Return the bytes at the peak by layer, without its numbers, and kind."""
    sizes: Counter[tuple[str, str]] = Counter()
    for holder in explanation.holders:
        sizes[fold_numbers(holder.layer), holder.kind] += holder.bytes
    return pd.Series(sizes)


def make_table(base: Explanation, change: Explanation) -> Table:
    """Return the table of differences in bytes.

    The table has the largest differences, the rest, what is unexplained, and the sum.
    """
    rows = list_differences(base, change)
    by_layer, unexplained = rows[:-1], rows[-1:]
    parts = [by_layer[:LARGEST]]
    if len(by_layer) > LARGEST:
        parts.append(sum_rows("the rest", by_layer[LARGEST:]))
    parts += [unexplained, sum_rows("all", rows)]
    peaks = choose_peaks(base, change)
    ratio = f"{peaks.change / peaks.base - 1:+.1%}" if peaks.base else "from nothing"
    increase = f"{format_mib(peaks.change - peaks.base, f'+{FINE}')} MiB ({ratio})"
    caption = (
        f"{peaks.instrument}: {format_mib(peaks.base, FINE)} MiB and "
        f"{format_mib(peaks.change, FINE)} MiB, {increase}. Bytes at the fullest "
        f"moment of a step: the {LARGEST} largest differences; the rows above the last "
        f"sum to it. * stands for any number. Unexplained is what {peaks.instrument} "
        "has beyond the buffers that the account counts."
    )
    notes = [f"counted: {how}" for how in drop_duplicates([base.how, change.how])]
    title = f"The difference of two peaks: {describe_case(change)} against {describe_case(base)}"
    return Table(
        title,
        caption,
        pd.concat(parts, ignore_index=True),
        COLUMNS,
        notes=tuple(notes),
    )


def sum_rows(name: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the sum of some rows as a row with this name."""
    sums = rows[["base", "change", "difference"]].sum()
    return sums.to_frame().T.assign(layer=name, kind="")


def describe_case(explanation: Explanation) -> str:
    """Return case and version, such as `transformer/jax/train/fp32/b4/cpu in jax 0.10.2`."""
    framework = explanation.framework
    return f"{explanation.case} in {framework} {explanation.versions[framework]}"


def as_json(base: Explanation, change: Explanation) -> dict[str, Any]:
    """Return both peaks and their differences in bytes."""
    peaks = choose_peaks(base, change)
    return {
        "case": change.case,
        "against": base.case,
        "versions": change.versions,
        "against_versions": base.versions,
        "instrument": peaks.instrument,
        "peak": peaks.change,
        "against_peak": peaks.base,
        "difference": peaks.change - peaks.base,
        "rows": list_differences(base, change).to_dict("records"),
    }
